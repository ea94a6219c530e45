// The views of the picture, and what the colours of links mean.

export type View = "globe" | "map" | "topology" | "swarm";
export const VIEWS: View[] = ["globe", "map", "topology", "swarm"];

export type Shade = "kind" | "delay" | "rate" | "loss" | "load";
export const SHADES: Shade[] = ["kind", "delay", "rate", "loss", "load"];
