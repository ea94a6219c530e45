// Steps as crates/web/src/frame.rs writes them.

const MAGIC = 0x31545343;
const HEAD = 56;
export const TURNING = 1 << 8;

export interface Link {
  ports: [number, number];
  a: number;
  b: number;
  kind: number;
  turning: boolean;
  delayMs: number;
  rateMbps: number;
  loss: number;
}

export interface Frame {
  whole: boolean;
  step: number;
  tNs: number;
  thenNs: number;
  sun: [number, number, number];
  nodes: number;
  /** ITRF km; of the step, or null where they are those of the frame before for later. */
  now: Float32Array | null;
  then: Float32Array;
  gone: string[];
  set: Link[];
  bytes: number;
}

export const key = (a: number, b: number): string => `${a}-${b}`;

/** Reads a message; throws on one that is none. */
export function read(buffer: ArrayBuffer): Frame {
  const view = new DataView(buffer);
  if (buffer.byteLength < HEAD || view.getUint32(0, true) !== MAGIC) throw new Error("no step of this protocol");
  const flags = view.getUint32(4, true);
  const [nodes, gone, set] = [44, 48, 52].map((at) => view.getUint32(at, true));
  let at = HEAD;
  const positions = () => {
    const all = new Float32Array(buffer, at, 3 * nodes);
    at += 12 * nodes;
    return all;
  };
  const now = flags & 2 ? null : positions();
  const then = positions();
  const frame: Frame = {
    whole: (flags & 1) !== 0,
    step: view.getFloat64(8, true),
    tNs: view.getFloat64(16, true),
    thenNs: view.getFloat64(24, true),
    sun: [32, 36, 40].map((at) => view.getFloat32(at, true)) as [number, number, number],
    nodes,
    now,
    then,
    gone: [],
    set: [],
    bytes: buffer.byteLength,
  };
  for (let i = 0; i < gone; i++, at += 8) {
    frame.gone.push(key(view.getUint32(at, true), view.getUint32(at + 4, true)));
  }
  for (let i = 0; i < set; i++, at += 32) {
    const word = (n: number) => view.getUint32(at + 4 * n, true);
    const single = (n: number) => view.getFloat32(at + 4 * n, true);
    frame.set.push({
      ports: [word(0), word(1)],
      a: word(2),
      b: word(3),
      kind: word(4) & 0xff,
      turning: (word(4) & TURNING) !== 0,
      delayMs: single(5),
      rateMbps: single(6),
      loss: single(7),
    });
  }
  return frame;
}

/** All links of the step that is shown. */
export class Links {
  readonly all = new Map<string, Link>();
  /** Rises with every change. */
  version = 0;

  apply(frame: Frame): void {
    if (frame.whole) this.all.clear();
    for (const gone of frame.gone) this.all.delete(gone);
    for (const link of frame.set) this.all.set(key(...link.ports), link);
    if (frame.whole || frame.gone.length || frame.set.length) this.version++;
  }

  between(a: number, b: number): Link | undefined {
    for (const link of this.all.values()) {
      if ((link.a === a && link.b === b) || (link.a === b && link.b === a)) return link;
    }
    return undefined;
  }
}
