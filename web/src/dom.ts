// Elements without a framework: text is always text, never markup.

type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  set: Partial<Record<string, unknown>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") element.className = String(value);
    else if (name in element && !name.includes("-")) (element as unknown as Record<string, unknown>)[name] = value;
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  add(element, children);
  return element;
}

export function add(to: Element, children: Child[]): void {
  for (const child of children) if (child || child === "") to.append(child);
}

export function fill(to: Element, ...children: Child[]): void {
  to.replaceChildren();
  add(to, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, set: Record<string, string | number> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(set)) element.setAttribute(name, String(value));
  add(element, children);
  return element;
}

export function table(head: string[], rows: Child[][], caption?: string): HTMLTableElement {
  return el(
    "table",
    {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", { class: typeof cell === "string" && /^[-+\d.,]+(°| [a-zA-Zµ%/]+)?$/.test(cell) ? "num" : "" }, cell ?? ""))))),
  );
}

export function need<T extends Element = HTMLElement>(selector: string): T {
  const found = document.querySelector<T>(selector);
  if (!found) throw new Error(`the page lacks ${selector}`);
  return found;
}
