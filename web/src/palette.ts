// Colours that are distinct for colour-blind people too (Okabe and Ito; viridis). Words name them as well.

export interface Palette {
  name: string;
  kinds: string[];
  scale: string[];
  bad: string;
  good: string;
  path: string;
  optimum: string;
}

const VIRIDIS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
const CIVIDIS = ["#00306f", "#575d6d", "#7c7b78", "#a59c74", "#ffe945"];
const GREYS = ["#3a4048", "#6a7078", "#9aa0a8", "#cacfd6", "#ffffff"];

export const PALETTES: Palette[] = [
  {
    name: "Night",
    kinds: ["#4cc9f0", "#ffb703", "#b8c0cc", "#c77dff"],
    scale: ["#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51"],
    bad: "#ff5d5d",
    good: "#58d68d",
    path: "#ffffff",
    optimum: "#80ed99",
  },
  {
    name: "Colour-blind safe",
    kinds: ["#56b4e9", "#e69f00", "#bbbbbb", "#cc79a7"],
    scale: VIRIDIS,
    bad: "#d55e00",
    good: "#009e73",
    path: "#f0e442",
    optimum: "#ffffff",
  },
  {
    name: "Blue and yellow",
    kinds: ["#5a8fd6", "#ffe945", "#a0a0a0", "#d9c76f"],
    scale: CIVIDIS,
    bad: "#ffffff",
    good: "#ffe945",
    path: "#ffffff",
    optimum: "#ffe945",
  },
  {
    name: "Greys",
    kinds: ["#8c96a4", "#ffffff", "#6a7078", "#cacfd6"],
    scale: GREYS,
    bad: "#ffffff",
    good: "#cacfd6",
    path: "#ffffff",
    optimum: "#cacfd6",
  },
];

export const rgb = (hex: string): [number, number, number] => {
  const n = parseInt(hex.slice(1), 16);
  return [(n >> 16) / 255, ((n >> 8) & 255) / 255, (n & 255) / 255];
};

/** Whether the system asks for a light page. The picture of the sky is dark in both. */
export const light = matchMedia("(prefers-color-scheme: light)");

/** The size of the page's text, pixels: it grows with the window and with the browser's setting. */
export const rem = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize) || 13;

/** A colour of the page's theme, for canvases. */
export const shade = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A colour of a palette for curves and marks of the page: darker on a light page, where palettes for the night sky are too pale. */
export function onPaper(hex: string): string {
  if (!light.matches) return hex;
  const [r, g, b] = rgb(hex);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const by = Math.min(1, 0.32 / Math.max(luminance, 0.01));
  return `rgb(${[r, g, b].map((one) => Math.round(255 * one * by)).join(" ")})`;
}

/** A colour of a scale, `share` from 0 to 1. */
export function along(scale: string[], share: number): [number, number, number] {
  const at = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const low = Math.min(scale.length - 2, Math.floor(at));
  const [a, b, w] = [rgb(scale[low]), rgb(scale[low + 1]), at - low];
  return [0, 1, 2].map((i) => a[i] + (b[i] - a[i]) * w) as [number, number, number];
}
