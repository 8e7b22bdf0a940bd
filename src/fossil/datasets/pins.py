"""What the published files are: their sizes and SHA-256, by which a damaged or another file is told.

The files of Planetoid were compared with a checksum that another project keeps of all 24 (the exclusive or of their
SHA-256, as DataDeps.jl computes it); those of geom-gcn and heterophilous-graphs come from the commits that their
addresses name. The two archives are as several projects (`arxiv.zip`) and one (`proteins.zip`) recorded them.
Of the files of gnn-benchmark, the published bytes were not at hand, and WordNet's is made by whoever wants it: what is
known is the graph in them, so that is what is compared (`CONTENT`), and other bytes of the same graph are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Pin(NamedTuple):
    """What a published file is.

    Attributes:
        sha256: of its bytes, in hexadecimal digits.
        size: in bytes; None where it was not recorded.
    """

    sha256: str
    size: int | None = None


# By folder: SHA-256, size and name of each file.
_FOLDERS = {
    "Planetoid/Cora/raw": """
23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab    22119 ind.cora.x
b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a   148025 ind.cora.tx
9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543   257305 ind.cora.allx
94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1     4054 ind.cora.y
41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad    28135 ind.cora.ty
2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71    47959 ind.cora.ally
58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d    59847 ind.cora.graph
297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875     5000 ind.cora.test.index
""",
    "Planetoid/CiteSeer/raw": """
d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6    31087 ind.citeseer.x
539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21   260321 ind.citeseer.tx
2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668   595021 ind.citeseer.allx
8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924     3014 ind.citeseer.y
55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce    24135 ind.citeseer.ty
f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95    55623 ind.citeseer.ally
d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7    61987 ind.citeseer.graph
2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4     5000 ind.citeseer.test.index
""",
    "Planetoid/PubMed/raw": """
fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33    23172 ind.pubmed.x
4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d   405505 ind.pubmed.tx
508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e  7578385 ind.pubmed.allx
e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3      854 ind.pubmed.y
ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd    12135 ind.pubmed.ty
0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e   224739 ind.pubmed.ally
5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9   471808 ind.pubmed.graph
b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5     6000 ind.pubmed.test.index
""",
    "Actor/raw": """
1d5cdd094f8b91e770f6decfca85b35cf42f75d1efb51055fd6af16e11820ff8   207718 out1_node_feature_label.txt
997cdce67ea9c29257d3ffe796328391931901cf823830affa453178b60e2c3e   323820 out1_graph_edges.txt
4505a41d4e90abd94d1ec22571ce528b09ad7cf20d87f764aebd4177590767f5     4214 film_split_0.6_0.2_0.npz
1871b0d24e3977c41e378fd24acc8025b63f86b77739be77a5b558d1287f207d     4231 film_split_0.6_0.2_1.npz
d26680e911ef3ecc9fc2a26d90c9d35028c63aadd7a5aea774649d1496c282cb     4224 film_split_0.6_0.2_2.npz
6755ad5f6a0be8594b344af3d2261eed935b83b73c4d70136e1a7beea7f78cb0     4207 film_split_0.6_0.2_3.npz
328fdca62b25074f21f2922518e042f24b3b8a1fc378f9dfb2cae36439aed902     4233 film_split_0.6_0.2_4.npz
5b3161a8dc8de4b2e651ebd56d68e768d1377044895b325566117fe26ab81cb7     4224 film_split_0.6_0.2_5.npz
e251b38abd4d7931b5e9ae5aba99dcdf87f0be283bdf6e65421274a1c9ef1df6     4221 film_split_0.6_0.2_6.npz
12164ef9f5620a2f12a387f4f2b8636859d42201101d6d32829ade62d5a98326     4205 film_split_0.6_0.2_7.npz
405cd1f7f631f678119f8bf2405809e86614d532985beb59566fcf95abd35b3f     4217 film_split_0.6_0.2_8.npz
505691c5d41bb37b20d085415dcdde2e8e68b5bc4e1feb2c0e361308002012bb     4208 film_split_0.6_0.2_9.npz
""",
    "WikipediaNetwork/chameleon/geom_gcn/raw": """
5fd29736ff31b43a1bfcf305bc8b4cffc3103fb0957667976b2ea0f78aedcf5b 10602901 out1_node_feature_label.txt
45ac593de9207470090230c8fd76beeb2f60b5371a9be088e8bf31e7f0619a4b   332448 out1_graph_edges.txt
36605525b69be4e7df5b31fe6a1d044288c6ebf9f9f0514ca151f6a36afc5e8b     1775 chameleon_split_0.6_0.2_0.npz
d0779d5a1bedf1967d394468a52c0175fb00595d361fba897faf73322386c952     1779 chameleon_split_0.6_0.2_1.npz
86ad0d827bf4301dff830598fc0b70d0dd8689c5b4d72dab1d87a6c1970c4c6e     1777 chameleon_split_0.6_0.2_2.npz
37b3e994adf3afc55e16b617ed05af4e3ce308800755839084d77eced0528e9d     1755 chameleon_split_0.6_0.2_3.npz
f6b1d067b2b330132839d8b6120077bdc6cf759f7ce421f881a02e2953ec4596     1778 chameleon_split_0.6_0.2_4.npz
e7661834275c826692510cea0457b18b2c1ee38771f178d06e701b97541a1f6d     1772 chameleon_split_0.6_0.2_5.npz
16648d1197c1d3a2dec385346212c382030b0d5a8c997f4255aa2afa68a6b174     1774 chameleon_split_0.6_0.2_6.npz
61adcc53846becefecd466a5364dda23b983d387d1ac5d58c6e24d080c0fcba7     1764 chameleon_split_0.6_0.2_7.npz
7076ad5341a8218b1f5b6eccf9cfd15d28286ea11ef5c06eeee77af24ff2bf63     1770 chameleon_split_0.6_0.2_8.npz
743c4f813bf6130398a6511eb9ff07d2366c73bd6c7fddaf226a3f9e2917e0e7     1773 chameleon_split_0.6_0.2_9.npz
""",
    "WikipediaNetwork/squirrel/geom_gcn/raw": """
ac15ab755983717a187992eef8ce2017aae33ea444fd655b07e4662690dcc03a 21765097 out1_node_feature_label.txt
453d8e96754d68e2ab0a7ebb56f93506b59531d95abaec7a2b46fe1eae7c39cd  2115917 out1_graph_edges.txt
f112b88d3354e86d164d4d915b6a1f695c10f0e01e3e6b9893fc7b09bb93191d     3134 squirrel_split_0.6_0.2_0.npz
2486c687c8befb55930a6237f76f1d86ce2ba345782eda6157f4e752d05f304f     3130 squirrel_split_0.6_0.2_1.npz
d62ff83862ad96022d3400dfc9b7ca405834ca62767319d97c36b3f02db978c0     3121 squirrel_split_0.6_0.2_2.npz
af3d90e0b2718ac7417e10e8b5b382443667412e846cabc3cc4e4a592f4cedae     3126 squirrel_split_0.6_0.2_3.npz
fbe848298bb72b88db0704050cf216e2a93c916540d577906f3e644b679a6a2c     3124 squirrel_split_0.6_0.2_4.npz
cd04fab46a181151ddd97ce93c65fe79558fb79ffa230b62f488ebfaf5fdcd75     3111 squirrel_split_0.6_0.2_5.npz
b9189f7903ca7556a025c54dd5be6c00ec5952d4299e71630bc9876157676412     3118 squirrel_split_0.6_0.2_6.npz
ea7fb3ca5d5aa45b917b99fb7d64d4e87322b2b5303a0156c547aa3f1a6c8941     3138 squirrel_split_0.6_0.2_7.npz
b43faa190ca6dd4885a39dfc2a93d59f56f5174f3567bdbc49b18dd9cd9b7fb4     3132 squirrel_split_0.6_0.2_8.npz
529ade4b86fd191908a96011f25c454653083674b6d4f090b3fdd27af2d14f62     3146 squirrel_split_0.6_0.2_9.npz
""",
    "heterophilous_filtered": """
bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5    58924 chameleon_filtered.npz
f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7   208215 squirrel_filtered.npz
5a2d40701407188f1661d37a326484b49cc15251e0dedaa7bd380873dac80f21    69275 chameleon_filtered_directed.npz
0526e53252f0b052124f7390829c32e923d432acaf64206191a1144a07b39620   249855 squirrel_filtered_directed.npz
""",
    "WebKB/texas/raw": """
cf5a3ca346cdd1210b8342e22517fcbbdae658065b7a3145f59350e50e6236a3   624308 out1_node_feature_label.txt
0fe85183243a78cbee9b85a684f8240963d04d1020d10e9cd2b8cfb25e33b476     2172 out1_graph_edges.txt
7ba77bf7a8856fcc0ab15623a611b8cdce994e820f577da914123fb4f45272b0      698 texas_split_0.6_0.2_0.npz
21cc244a96e3c51ad7993afb4dd227f90e467d82b964bb42d7d9fc500a6ef87f      701 texas_split_0.6_0.2_1.npz
b9e96a699ccf3a4c31ffbd03e52b25570889833425d20fa44e06c37b327cf61e      756 texas_split_0.6_0.2_2.npz
1a7deeb1285009789d5e6045d7e39f7d019c9223d9a75a2b7ce5e26d33b51f63      759 texas_split_0.6_0.2_3.npz
b5419ff3fe31adcae66fdb085d4f47d0b188e9436ab59f438632af969aafc674      702 texas_split_0.6_0.2_4.npz
68405fd1b9ff6105d99717220ecbd198785e338bf4a73abee722bbc9703d2667      691 texas_split_0.6_0.2_5.npz
8ad78b973164e70e5ac0d282e79adcbc6006e373909fbdfd72a13131e09040b8      756 texas_split_0.6_0.2_6.npz
a84bcbf997365bddf5fdf72ed49dc7e435e475f8c6210f8cdee7c8581a2bd6df      693 texas_split_0.6_0.2_7.npz
65ba65f296f91d40d2d7d3c9369b67415094a7e254c6eee48cd6d6531c586fdf      762 texas_split_0.6_0.2_8.npz
4306981d654ad8835c000c1f73fb6c1e60dfe99e26c13a6073f3b0f4cc3ce6ee      693 texas_split_0.6_0.2_9.npz
""",
    "WebKB/cornell/raw": """
38561ad44e29199a826ccef7f94f469b94a912076f83fbc453a69b8ac2b4b858   624308 out1_node_feature_label.txt
12dc60defc4f8a1f18499e3695bfd62ef0421f9b722297276e7f02dec7ae3dca     1989 out1_graph_edges.txt
14022a1e19ec7fc0a07a2c06a785a2f9dc52809dbcd1c14fc318f7800675d73f      704 cornell_split_0.6_0.2_0.npz
5568fa27e968a724c92211bf97026a36a08893cf94b218043e49b4c973c35cfb      700 cornell_split_0.6_0.2_1.npz
763fc1f423395e4172617fa5b6bc0d7adad2241e5fedd1a4f0a098a67f9dc8e9      695 cornell_split_0.6_0.2_2.npz
4334321cd9ec42de9d51107fb9a6dc310512e0921bc1cff0f390301ee37315fa      701 cornell_split_0.6_0.2_3.npz
2b6b3ef396f4dc7fcdc276fb16b88bb87409b25879dd672b3a506eca844dd8d7      759 cornell_split_0.6_0.2_4.npz
1a40ef8b20aa9e1aa850e1abdaba3efac1f66c98ef2c6a59eadefa21136ece6b      754 cornell_split_0.6_0.2_5.npz
bcddf4ab59eae4c7d47b8a6cec9025a54ec0e6d3f3bdcd7678e201f25ace4642      758 cornell_split_0.6_0.2_6.npz
2b497e12dfc123d7e7c9bb4fc4a82b5bee18409e109a3e3a04da439cacec964d      693 cornell_split_0.6_0.2_7.npz
5c4e110d252d7ad156b2e4cd34b6dbd1cecbcc1755f8d72e932cc2a54f2b643c      701 cornell_split_0.6_0.2_8.npz
80f1531807194d301affbf6f879a4ab4f56a19bdccb62d192e3ecd1b5275f052      704 cornell_split_0.6_0.2_9.npz
""",
}


def _pins() -> dict[str, Pin]:
    lines = [(folder, line.split()) for folder, block in _FOLDERS.items() for line in block.strip().splitlines()]
    return {f"{folder}/{name}": Pin(sha256, int(size)) for folder, (sha256, size, name) in lines}


FILES: Mapping[str, Pin] = MappingProxyType(_pins())
"""Published files, by their paths below the data root."""

ARCHIVES: Mapping[str, Pin] = MappingProxyType(
    {
        "arxiv.zip": Pin("49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276", 83_058_288),
        "proteins.zip": Pin("1cd3113dc2a6f0c87a549332b77d78be45cf99804c254c18d9c72029164a0859"),
    }
)
"""Published archives, by their names."""

CONTENT: Mapping[str, str] = MappingProxyType(
    {
        "coauthor_cs": "b8fdca520f842ac82f9e33e7401a55cdf8f25037732aa45155eaaef289c10aa7",
        "amazon_photo": "2a9772aeaff59810c6a36d1b6381cc86ab18d8f3bd5e81262c45f987897d6e01",
        "wordnet": "fcdeaa5374a963b67ec03613ad55ea243db5bd0faaab599b2c1edf23d8e0adc8",
    }
)
"""What `fossil.datasets.verify.content_digest` says of a graph whose file has no pin, by name."""
