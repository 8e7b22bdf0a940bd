// Colours that colour-blind readers can tell apart: Okabe and Ito's eight for classes (darker or lighter by theme),
// further ones by turning the hue at two lightnesses, and viridis or cividis-like ramps for numbers.

export type Theme = "light" | "dark";

const CLASSES: Record<Theme, string[]> = {
  light: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00", "#5b4b8a", "#7f7f7f", "#000000"],
  dark: ["#4fa8e0", "#e08a00", "#2fc49a", "#e29ac2", "#e4572e", "#8fd0f5", "#efe04f", "#a99be0", "#b5b5b5", "#ffffff"],
};

const RAMP = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

export const MISSING: Record<Theme, string> = { light: "#c4c9d1", dark: "#454c58" };

export function classColours(count: number, theme: Theme): string[] {
  const fixed = CLASSES[theme];
  if (count <= fixed.length) return fixed.slice(0, count);
  return Array.from({ length: count }, (_, i) => {
    if (i < 8) return fixed[i]!;
    const hue = (i * 137.508) % 360; // the golden angle: neighbours in number are far apart in hue
    const light = (theme === "light" ? [38, 52, 66] : [58, 70, 82])[i % 3]!;
    return hex(hue, 62, light);
  });
}

export function ramp(theme: Theme): string[] {
  // On a white page the yellow end would vanish, on a black one the violet end.
  const bent = theme === "light" ? RAMP.slice(0, 9) : RAMP.slice(1);
  return Array.from({ length: 64 }, (_, i) => between(bent, i / 63));
}

function between(colours: string[], share: number): string {
  const place = share * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  const [a, b] = [channels(colours[low]!), channels(colours[low + 1]!)];
  return `#${a.map((one, i) => byte(one + (b[i]! - one) * (place - low))).join("")}`;
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
}

function byte(value: number): string {
  return Math.round(value).toString(16).padStart(2, "0");
}

function hex(hue: number, saturation: number, light: number): string {
  const [s, l] = [saturation / 100, light / 100];
  const of = (n: number) => {
    const k = (n + hue / 30) % 12;
    return 255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  };
  return `#${[0, 8, 4].map((n) => byte(of(n))).join("")}`;
}
