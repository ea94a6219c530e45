// Elements without a framework: text is always text, never markup.

export type Child = Node | string | null | undefined | false;

type Handlers = Record<string, EventListener>;

/** The handlers of an element that `el` or `svg` made. They are kept apart from the element, so that `patch` can replace them. */
const handlers = new WeakMap<Element, Handlers>();

function listen(element: Element, name: string, handler: EventListener): void {
  const own = handlers.get(element) ?? {};
  if (!own[name]) element.addEventListener(name, (event) => handlers.get(element)?.[name]?.(event));
  own[name] = handler;
  handlers.set(element, own);
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  set: Partial<Record<string, unknown>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (name.startsWith("on")) listen(element, name.slice(2), value as EventListener);
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

const keyOf = (node: Node): string => (node instanceof Element ? (node.getAttribute("data-key") ?? node.id) : "");

const isWhole = (node: Node): boolean => node instanceof Element && node.hasAttribute("data-whole");

/** Whether an element can stay in place of another: the same tag and key. */
const fits = (have: Node, want: Node): boolean => have.nodeName === want.nodeName && keyOf(have) === keyOf(want) && (!isWhole(have) || keyOf(have) !== "");

/**
 * Makes the children of an element those given. Elements that are there already stay, with new text, attributes and handlers. So focus, selection,
 * text in fields and a click that has begun survive an update. Elements with `data-key` are found again wherever they move. An element with `data-whole` and
 * the same key stays as it is, with all its content.
 */
export function patch(to: Element, ...children: Child[]): void {
  const keyed = new Map<string, Node>();
  for (const child of to.childNodes) if (keyOf(child)) keyed.set(`${child.nodeName} ${keyOf(child)}`, child);
  let at: Node | null = to.firstChild;
  const drop = (until: Node | null) => {
    while (at && at !== until) {
      const next: Node | null = at.nextSibling;
      to.removeChild(at);
      at = next;
    }
  };
  const place = (node: Node) => {
    // A node that moves loses the focus, so those before it go instead.
    if (node !== at && node.parentNode === to && node.contains(document.activeElement)) drop(node);
    if (node === at) at = at.nextSibling;
    else to.insertBefore(node, at);
  };
  for (const child of children) {
    if (!child && child !== "") continue;
    const want: Node = typeof child === "string" ? document.createTextNode(child) : child;
    const key = `${want.nodeName} ${keyOf(want)}`;
    const known = keyOf(want) ? keyed.get(key) : at;
    keyed.delete(key);
    if (known && known !== want && fits(known, want)) {
      if (!isWhole(known)) become(known, want);
      place(known);
    } else place(want);
  }
  drop(null);
}

function become(have: Node, want: Node): void {
  if (!(have instanceof Element) || !(want instanceof Element)) {
    if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
    return;
  }
  for (const { name } of [...have.attributes]) if (!want.hasAttribute(name)) have.removeAttribute(name);
  for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  const [old, now] = [handlers.get(have) ?? {}, handlers.get(want) ?? {}];
  for (const name of Object.keys(old)) if (!now[name]) delete old[name];
  for (const [name, handler] of Object.entries(now)) listen(have, name, handler);
  patch(have, ...want.childNodes);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, set: Record<string, string | number | EventListener> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(set)) {
    if (typeof value === "function") listen(element, name.slice(2), value);
    else element.setAttribute(name, String(value));
  }
  add(element, children);
  return element;
}

export function table(head: string[], rows: Child[][], caption?: string): HTMLTableElement {
  return el(
    "table",
    {},
    caption ? el("caption", {}, caption) : null,
    head.length ? el("thead", {}, el("tr", {}, ...head.map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))) : null,
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", { class: typeof cell === "string" && /^[-+\d.,]+(°| [a-zA-Zµ%/]+)?$/.test(cell) ? "num" : "" }, cell ?? ""))))),
  );
}

export function need<T extends Element = HTMLElement>(selector: string): T {
  const found = document.querySelector<T>(selector);
  if (!found) throw new Error(`the page lacks ${selector}`);
  return found;
}
