"""FOSSIL with channels."""

from fossil.methods.fossil_channels.method import FossilChannels, FossilChannelsV2
from fossil.methods.fossil_channels.settings import ChannelSettings

__all__ = ["ChannelSettings", "FossilChannels", "FossilChannelsV2"]
