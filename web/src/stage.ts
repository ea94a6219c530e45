// The picture: a globe, a map or a topology of the same nodes and links, in at most seven draw calls.

import * as THREE from "three";
import { type Link, type Links, key } from "./frame";
import { texture } from "./land";
import type { Vector } from "./arcs";
import { Palette, along, rgb } from "./palette";
import * as S from "./shaders";
import type { World } from "./types";

export type View = "globe" | "map" | "topology";
export type Shade = "kind" | "delay" | "rate" | "loss" | "load";
export const SHADES: Shade[] = ["kind", "delay", "rate", "loss", "load"];

export const EARTH_KM = 6371;
const WIDE = 256;
const VIEWS: View[] = ["globe", "map", "topology"];

/** A line between two nodes that is drawn beside the links. */
export interface Marked {
  a: number;
  b: number;
  colour: string;
  width: number;
  dash: number;
}

/** Lines between nodes: one draw call, whatever their number. */
class Lines {
  readonly mesh: THREE.Mesh;
  private geometry = Lines.shape();
  private room = 0;
  count = 0;

  constructor(uniforms: Record<string, THREE.IUniform>, order: number, depth: boolean) {
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms,
      vertexShader: S.LINK_VERTEX,
      fragmentShader: S.LINK_FRAGMENT,
      transparent: true,
      depthWrite: false,
      depthTest: depth,
      side: THREE.DoubleSide,
    });
    this.mesh = new THREE.Mesh(this.geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = order;
  }

  /** What each line is an instance of: a quad, then two strips of pieces for the map, where lines bend and may come in on the other side. */
  private static shape(): THREE.InstancedBufferGeometry {
    const shape = new THREE.InstancedBufferGeometry();
    const corners: number[] = [];
    const index: number[] = [];
    const strip = (pieces: number, copy: number) => {
      const first = corners.length / 3;
      for (let i = 0; i <= pieces; i++) corners.push(i / pieces, -1, copy, i / pieces, 1, copy);
      for (let at = first; at < first + 2 * pieces; at += 2) index.push(at, at + 1, at + 2, at + 2, at + 1, at + 3);
    };
    strip(1, 0);
    strip(S.PIECES, 0);
    strip(S.PIECES, 1);
    shape.setAttribute("corner", new THREE.BufferAttribute(new Float32Array(corners), 3));
    shape.setIndex(index);
    shape.instanceCount = 0;
    return shape;
  }

  /** Whether lines are drawn in pieces, or as one quad each. */
  bend(pieces: boolean): void {
    if (pieces) this.geometry.setDrawRange(6, 12 * S.PIECES);
    else this.geometry.setDrawRange(0, 6);
  }

  put(count: number, write: (i: number, ends: Float32Array, tint: Float32Array, style: Float32Array) => void): void {
    if (count > this.room || this.room === 0) {
      this.room = Math.max(64, Math.ceil(count * 1.3));
      // A shape remembers how many instances its first attributes had room for: a larger one is another.
      this.geometry.dispose();
      this.geometry = Lines.shape();
      this.mesh.geometry = this.geometry;
      for (const [name, size] of [["ends", 2], ["tint", 4], ["style", 2]] as const) {
        const attribute = new THREE.InstancedBufferAttribute(new Float32Array(this.room * size), size);
        this.geometry.setAttribute(name, attribute.setUsage(THREE.DynamicDrawUsage));
      }
    }
    const of = (name: string) => this.geometry.getAttribute(name) as THREE.InstancedBufferAttribute;
    const [ends, tint, style] = ["ends", "tint", "style"].map((name) => of(name).array as Float32Array);
    for (let i = 0; i < count; i++) write(i, ends, tint, style);
    for (const name of ["ends", "tint", "style"]) of(name).needsUpdate = true;
    this.geometry.instanceCount = count;
    this.count = count;
  }
}

const DRAWING = { alpha: true, powerPreference: "high-performance" } as const;

export class Stage {
  view: View = "globe";
  shade: Shade = "kind";
  /** The used share of each link's rate, by `key` of its ports; idle links have none. */
  loads: ReadonlyMap<string, number> = new Map();
  /** Where the eye is above the Earth: degrees, and its distance in Earth's radii. */
  eye = { lon: 10, lat: 28, far: 3.9 };
  /** The centre of map and topology, and how much is seen. */
  flat = { x: 0, y: 0, zoom: 1 };
  picked: [number, number] = [-1, -1];
  dirty = true;
  /** Script of the last frame, milliseconds. */
  scriptMs = 0;
  /** Whether a graphics card draws, and not the processors. */
  readonly card: boolean;
  readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly camera = new THREE.PerspectiveCamera(36, 1, 0.02, 60);
  private readonly uniforms: Record<string, THREE.IUniform>;
  private readonly links: Lines;
  private readonly marks: Lines;
  private readonly earth: THREE.Mesh;
  private readonly globeMesh: THREE.BufferGeometry;
  private readonly mapMesh: THREE.BufferGeometry;
  private readonly air: THREE.Mesh;
  private readonly track: THREE.Line;
  private readonly now: THREE.DataTexture;
  private readonly then: THREE.DataTexture;
  private readonly grid: THREE.DataTexture;
  private readonly nodeLook: THREE.BufferAttribute;
  private linkVersion = -1;
  private matrix = new THREE.Matrix4();

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly world: World,
    readonly table: Links,
    public palette: Palette,
  ) {
    // Smooth edges only where a graphics card makes them: on processors they cost most of a frame.
    const context = canvas.getContext("webgl2", { ...DRAWING, antialias: true, failIfMajorPerformanceCaveat: true });
    this.card = context !== null;
    this.renderer = new THREE.WebGLRenderer({ canvas, ...DRAWING, antialias: false, ...(context ? { context } : {}) });
    this.renderer.setClearColor(0, 0);
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
    const high = Math.max(1, Math.ceil(world.nodes.length / WIDE));
    const floats = () => {
      const made = new THREE.DataTexture(new Float32Array(4 * WIDE * high), WIDE, high, THREE.RGBAFormat, THREE.FloatType);
      made.needsUpdate = true;
      return made;
    };
    [this.now, this.then, this.grid] = [floats(), floats(), floats()];
    this.lay();
    const empty = new THREE.DataTexture(new Uint8Array(4), 1, 1);
    empty.needsUpdate = true;
    const none = () => new THREE.Vector4(0, 0, 1, -2);
    this.uniforms = {
      uNow: { value: this.now },
      uThen: { value: this.then },
      uGrid: { value: this.grid },
      uMix: { value: 0 },
      uView: { value: 0 },
      uCamera: { value: new THREE.Matrix4() },
      uMapCentre: { value: new THREE.Vector2() },
      uMapScale: { value: new THREE.Vector2(1, 1) },
      uViewport: { value: new THREE.Vector2(1, 1) },
      uWidth: { value: 1.3 },
      uMarch: { value: 0 },
      uSize: { value: 5 },
      uPicked: { value: [-1, -1] },
      uLand: { value: empty },
      uSun: { value: new THREE.Vector3(1, 0, 0) },
      uEye: { value: new THREE.Vector3(3, 0, 0) },
      uFoot: { value: [none(), none(), none(), none()] },
      uFootColour: { value: new THREE.Vector3(0.4, 0.7, 1) },
      uTint: { value: new THREE.Vector3(1, 1, 1) },
    };
    const raw = (vertexShader: string, fragmentShader: string, more: Partial<THREE.ShaderMaterialParameters> = {}) =>
      new THREE.RawShaderMaterial({ glslVersion: THREE.GLSL3, uniforms: this.uniforms, vertexShader, fragmentShader, ...more });
    // The poles of three's sphere are its y; ours are z.
    this.globeMesh = new THREE.SphereGeometry(1, 128, 96).rotateX(Math.PI / 2);
    this.mapMesh = new THREE.PlaneGeometry(2 * Math.PI, Math.PI);
    this.earth = new THREE.Mesh(this.globeMesh, raw(S.EARTH_VERTEX, S.EARTH_FRAGMENT, { side: THREE.DoubleSide }));
    this.air = new THREE.Mesh(
      new THREE.SphereGeometry(1, 96, 64).rotateX(Math.PI / 2),
      raw(S.AIR_VERTEX, S.AIR_FRAGMENT, { side: THREE.BackSide, transparent: true, depthWrite: false }),
    );
    this.links = new Lines(this.uniforms, 2, true);
    this.marks = new Lines(this.uniforms, 4, true);
    const trackShape = new THREE.BufferGeometry();
    this.track = new THREE.Line(trackShape, raw(S.TRACK_VERTEX, S.TRACK_FRAGMENT, { transparent: true, depthWrite: false }));
    this.track.renderOrder = 3;
    this.track.visible = false;
    const points = new THREE.BufferGeometry();
    const numbers = Float32Array.from(world.nodes, (_, i) => i);
    this.nodeLook = new THREE.BufferAttribute(new Float32Array(4 * world.nodes.length), 4);
    points.setAttribute("number", new THREE.BufferAttribute(numbers, 1));
    points.setAttribute("look", this.nodeLook);
    points.setDrawRange(0, world.nodes.length);
    const nodes = new THREE.Points(points, raw(S.NODE_VERTEX, S.NODE_FRAGMENT, { transparent: true, depthWrite: false }));
    nodes.renderOrder = 5;
    this.earth.renderOrder = 0;
    this.air.renderOrder = 1;
    for (const one of [this.earth, this.air, this.links.mesh, this.track, this.marks.mesh, nodes]) {
      one.frustumCulled = false;
      this.scene.add(one);
    }
    this.paint();
  }

  /** Whether positions have come. */
  private placed = false;

  /** The time at which the first step was on the screen, milliseconds since the page was requested; null: not yet. */
  pictureMs: number | null = null;
  private showing = false;
  private compiled = false;

  /** A step is drawn for the first time: what comes after it waits until the browser has shown it, two frames later. */
  private shown(): void {
    if (this.showing) return;
    this.showing = true;
    requestAnimationFrame(() =>
      requestAnimationFrame((now) => {
        this.pictureMs = now;
        this.dress();
      }),
    );
  }

  /** Draws the land, once: it takes longer than all else together, so nodes and links are there before it. */
  private dress(): void {
    void texture(this.card ? 4096 : 2048).then((canvas) => {
      const land = new THREE.CanvasTexture(canvas);
      land.wrapS = THREE.RepeatWrapping;
      land.anisotropy = this.card ? Math.min(4, this.renderer.capabilities.getMaxAnisotropy()) : 1;
      this.uniforms.uLand.value = land;
      this.dirty = true;
    });
  }

  /** Places of the topology: planes from left to right, slots from below; spacecraft on a ring; nodes on the ground in rows below. */
  private lay(): void {
    const grid = this.grid.image.data as Float32Array;
    const { nodes } = this.world;
    const lanes = new Map<string, number>();
    let slots = 1;
    for (const node of nodes) {
      if (!node.seat || node.constellation === undefined || node.kind === "spacecraft") continue;
      const lane = `${node.constellation}/${node.seat[0]}/${node.seat[1]}`;
      if (!lanes.has(lane)) lanes.set(lane, lanes.size);
      slots = Math.max(slots, node.seat[2] + 1);
    }
    const wide = Math.max(1, lanes.size);
    // Craft of a swarm are on a ring: in a row, links between neighbours and links over them would look like one chain.
    const craft = nodes.filter((node) => node.kind === "spacecraft").length;
    const planes = craft && lanes.size ? 4.2 : 6;
    const ring = lanes.size ? { x: 2.2, size: 0.7 } : { x: 0, size: 1.1 };
    let placed = 0;
    const ground = nodes.filter((node) => !node.seat && node.kind !== "spacecraft").length;
    const rows = Math.max(1, Math.ceil(ground / Math.max(wide, 12)));
    let stands = 0;
    nodes.forEach((node, i) => {
      let [x, y] = [0, 0];
      if (node.kind === "spacecraft") {
        const angle = (2 * Math.PI * placed++) / craft;
        [x, y] = [ring.x + ring.size * Math.sin(angle), 0.25 + ring.size * Math.cos(angle)];
      } else if (node.seat && node.constellation !== undefined) {
        const lane = lanes.get(`${node.constellation}/${node.seat[0]}/${node.seat[1]}`) ?? 0;
        x = -3 + (planes * (lane + 0.5)) / wide;
        y = -0.95 + (2.4 * (node.seat[2] + 0.5)) / slots;
      } else {
        const row = Math.floor((stands * rows) / Math.max(1, ground));
        const inRow = Math.ceil(ground / rows);
        x = -3 + (6 * ((stands % inRow) + 0.5)) / inRow;
        y = -1.22 - 0.16 * row;
        stands++;
      }
      grid.set([x, y, 0, 1], 4 * i);
    });
    this.grid.needsUpdate = true;
  }

  /** Colours of nodes; call when the palette changes. */
  paint(): void {
    const { kinds } = this.palette;
    const tones = [kinds[0], kinds[3], kinds[2]];
    this.world.nodes.forEach((node, i) => {
      const flies = node.constellation !== undefined || node.kind === "spacecraft";
      const tone = flies ? rgb(tones[(node.constellation ?? 0) % tones.length]) : rgb(kinds[1]);
      const soft = tone.map((one) => one * 0.75 + 0.25);
      this.nodeLook.setXYZW(i, soft[0], soft[1], soft[2], flies ? 0 : 1);
    });
    this.nodeLook.needsUpdate = true;
    this.linkVersion = -1;
    this.dirty = true;
  }

  /** Positions of a step and of later, ITRF km. */
  positions(now: Float32Array, then: Float32Array, sun: [number, number, number]): void {
    for (const [texture, from] of [[this.now, now], [this.then, then]] as const) {
      const data = texture.image.data as Float32Array;
      for (let i = 0, n = from.length / 3; i < n; i++) {
        data[4 * i] = from[3 * i] / EARTH_KM;
        data[4 * i + 1] = from[3 * i + 1] / EARTH_KM;
        data[4 * i + 2] = from[3 * i + 2] / EARTH_KM;
      }
      texture.needsUpdate = true;
    }
    this.uniforms.uSun.value.set(...sun);
    this.placed = true;
    this.dirty = true;
  }

  private tint(link: Link, failed: boolean): [number, number, number, number] {
    if (failed) return [...rgb(this.palette.bad), 1];
    const many = this.table.all.size > 1500;
    const alpha = (link.kind === 0 ? (many ? 0.3 : 0.55) : 0.9) * (link.turning ? 0.5 : 1);
    const { scale, kinds } = this.palette;
    switch (this.shade) {
      case "delay":
        return [...along(scale, link.delayMs / 25), Math.max(alpha, 0.6)];
      case "rate":
        return [...along(scale, Number.isFinite(link.rateMbps) ? Math.log10(1 + link.rateMbps) / 4 : 1), Math.max(alpha, 0.6)];
      case "loss":
        return [...along(scale, Math.sqrt(link.loss) * 3), Math.max(alpha, 0.6)];
      case "load": {
        const load = this.loads.get(key(...link.ports));
        return load === undefined ? [...rgb(kinds[2]), many ? 0.12 : 0.25] : [...along(scale, load), 0.95];
      }
      default:
        return [...rgb(kinds[link.kind] ?? kinds[2]), alpha];
    }
  }

  /** Links as they are; `failed` says which are failed by hand. */
  relink(failed: (link: Link) => boolean): void {
    if (this.linkVersion === this.table.version) return;
    this.linkVersion = this.table.version;
    const all = [...this.table.all.values()];
    this.links.put(all.length, (i, ends, tint, style) => {
      const link = all[i];
      const broken = failed(link);
      ends.set([link.a, link.b], 2 * i);
      tint.set(this.tint(link, broken), 4 * i);
      style.set([link.kind === 0 ? 1 : 1.35, broken ? 2 : link.turning ? 1 : 0], 2 * i);
    });
    this.dirty = true;
  }

  /** Computes the colours of all links again. */
  reshade(shade: Shade): void {
    this.shade = shade;
    this.linkVersion = -1;
    this.dirty = true;
  }

  stale(): void {
    this.linkVersion = -1;
    this.dirty = true;
  }

  mark(lines: Marked[]): void {
    this.marks.put(lines.length, (i, ends, tint, style) => {
      const line = lines[i];
      ends.set([line.a, line.b], 2 * i);
      tint.set([...rgb(line.colour), 1], 4 * i);
      style.set([line.width, line.dash], 2 * i);
    });
    this.dirty = true;
  }

  /** The future track of a satellite; null for none. */
  fly(itrfKm: number[] | null): void {
    this.track.visible = !!itrfKm && itrfKm.length > 3;
    this.dirty = true;
    if (!itrfKm || itrfKm.length < 6) return;
    const n = itrfKm.length / 3;
    const at = Float32Array.from(itrfKm, (km) => km / EARTH_KM);
    const before = new Float32Array(at.length);
    before.set(at.subarray(0, 3));
    before.set(at.subarray(0, at.length - 3), 3);
    const shape = this.track.geometry;
    shape.setAttribute("position", new THREE.BufferAttribute(at, 3));
    shape.setAttribute("before", new THREE.BufferAttribute(before, 3));
    shape.setAttribute("share", new THREE.BufferAttribute(Float32Array.from({ length: n }, (_, i) => i / n), 1));
    this.uniforms.uTint.value.set(...rgb(this.palette.kinds[0]));
  }

  /** The areas that satellites cover: directions and the cosine of the angle seen from the Earth's centre. */
  cover(feet: { node: number; maskDeg: number }[]): void {
    this.feet = feet.slice(0, 4);
    this.dirty = true;
  }

  private feet: { node: number; maskDeg: number }[] = [];

  /** A node's position now, Earth's radii. */
  at(node: number, out = new THREE.Vector3()): THREE.Vector3 {
    const [a, b] = [this.now.image.data as Float32Array, this.then.image.data as Float32Array];
    const [w, i] = [this.uniforms.uMix.value as number, 4 * node];
    out.set(a[i] + (b[i] - a[i]) * w, a[i + 1] + (b[i + 1] - a[i + 1]) * w, a[i + 2] + (b[i + 2] - a[i + 2]) * w);
    const radius = Math.hypot(a[i], a[i + 1], a[i + 2]) * (1 - w) + Math.hypot(b[i], b[i + 1], b[i + 2]) * w;
    return out.setLength(radius);
  }

  /** Where a node is on the screen, pixels; null: behind the Earth or nowhere. */
  screen(node: number): [number, number] | null {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const p = this.at(node, this.scratch);
    if (!Number.isFinite(p.x) || p.lengthSq() === 0) return null;
    if (this.view === "globe") {
      if (this.hidden(p)) return null;
      p.applyMatrix4(this.matrix);
      return Math.abs(p.z) > 1 ? null : [((p.x + 1) / 2) * w, ((1 - p.y) / 2) * h];
    }
    let [x, y] = [Math.atan2(p.y, p.x), Math.asin(p.z / p.length())];
    if (this.view === "topology") {
      const grid = this.grid.image.data as Float32Array;
      [x, y] = [grid[4 * node], grid[4 * node + 1]];
    }
    return this.pixels(x, y);
  }

  /** The direction from the Earth's centre to what the map shows at a pixel. */
  under(x: number, y: number): Vector {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const [centre, scale] = [this.uniforms.uMapCentre.value, this.uniforms.uMapScale.value];
    const [lon, lat] = [centre.x + ((2 * x) / w - 1) / scale.x, centre.y + (1 - (2 * y) / h) / scale.y];
    return [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)];
  }

  /** Where the map shows a direction, pixels. */
  onMap(p: Vector): [number, number] {
    return this.pixels(Math.atan2(p[1], p[0]), Math.asin(p[2] / Math.hypot(...p)));
  }

  /** Where a point of the map or the topology is on the screen. */
  private pixels(x: number, y: number): [number, number] {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const [centre, scale] = [this.uniforms.uMapCentre.value, this.uniforms.uMapScale.value];
    return [(((x - centre.x) * scale.x + 1) / 2) * w, ((1 - (y - centre.y) * scale.y) / 2) * h];
  }

  private readonly scratch = new THREE.Vector3();
  private readonly other = new THREE.Vector3();

  private hidden(p: THREE.Vector3): boolean {
    const eye = this.uniforms.uEye.value as THREE.Vector3;
    const ray = this.other.copy(p).sub(eye);
    const far = ray.length();
    ray.divideScalar(far);
    const along = -eye.dot(ray);
    if (along <= 0 || along >= far) return false;
    return eye.lengthSq() - along * along < 0.985;
  }

  resize(): void {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w || !h) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(w, h, false);
    this.camera.aspect = w / h;
    this.uniforms.uViewport.value.set(w, h);
    this.dirty = true;
  }

  /** Draws, if anything has changed. */
  draw(mix: number, march: number | null): boolean {
    if (march !== null && this.marks.count) this.dirty = true;
    if (this.uniforms.uMix.value !== mix) this.dirty = true;
    if (!this.dirty) return false;
    if (!this.placed && !this.card) {
      // Processors that draw an empty globe first draw the sky later.
      if (!this.compiled) this.renderer.compile(this.scene, this.camera);
      this.compiled = true;
      return false;
    }
    const began = performance.now();
    this.dirty = false;
    const { uniforms: u, canvas } = this;
    u.uMix.value = mix;
    u.uMarch.value = march ?? 0;
    u.uView.value = VIEWS.indexOf(this.view);
    u.uPicked.value = this.picked;
    for (const lines of [this.links, this.marks]) lines.bend(this.view === "map");
    const ratio = this.renderer.getPixelRatio();
    const many = this.world.nodes.length;
    const close = this.view === "globe" ? 3.9 / this.eye.far : this.flat.zoom;
    u.uSize.value = Math.min(12, (many > 3000 ? 2.6 : many > 600 ? 3.4 : 5.5) * Math.max(0.8, Math.sqrt(close))) * ratio;
    u.uWidth.value = (many > 600 ? 1.0 : 1.4) * (this.view === "topology" && many > 600 ? 0.7 : 1);
    const [lon, lat] = [(this.eye.lon * Math.PI) / 180, (this.eye.lat * Math.PI) / 180];
    const eye = u.uEye.value as THREE.Vector3;
    eye.set(Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)).multiplyScalar(this.eye.far);
    this.camera.position.copy(eye);
    this.camera.up.set(0, 0, 1);
    this.camera.near = Math.max(0.005, (this.eye.far - 1) * 0.2);
    this.camera.lookAt(0, 0, 0);
    this.camera.updateProjectionMatrix();
    this.camera.updateMatrixWorld();
    this.matrix.multiplyMatrices(this.camera.projectionMatrix, this.camera.matrixWorldInverse);
    u.uCamera.value.copy(this.matrix);
    const aspect = canvas.clientWidth / Math.max(1, canvas.clientHeight);
    const fit = Math.min(1 / 3.25, 1 / (1.66 * aspect));
    u.uMapScale.value.set(fit * this.flat.zoom, fit * aspect * this.flat.zoom);
    u.uMapCentre.value.set(this.flat.x, this.flat.y);
    const mesh = this.view === "globe" ? this.globeMesh : this.mapMesh;
    if (this.earth.geometry !== mesh) this.earth.geometry = mesh;
    this.earth.visible = this.view !== "topology";
    this.air.visible = this.view === "globe";
    this.feetNow();
    this.renderer.render(this.scene, this.camera);
    this.scriptMs = performance.now() - began;
    if (this.placed) this.shown();
    return true;
  }

  private feetNow(): void {
    const feet = this.uniforms.uFoot.value as THREE.Vector4[];
    feet.forEach((foot, i) => {
      const of = this.feet[i];
      const p = of ? this.at(of.node, this.scratch) : null;
      if (!of || !p || !Number.isFinite(p.x)) {
        foot.set(0, 0, 1, -2);
        return;
      }
      const radius = p.length();
      const mask = (of.maskDeg * Math.PI) / 180;
      const angle = Math.acos(Math.min(1, Math.cos(mask) / radius)) - mask;
      p.normalize();
      foot.set(p.x, p.y, p.z, Math.cos(angle));
    });
    this.uniforms.uFootColour.value.set(...rgb(this.palette.kinds[0]));
  }

  get calls(): number {
    return this.renderer.info.render.calls;
  }

  /** Triangles of the last frame: two of each line that was drawn, beside the Earth's. */
  get triangles(): number {
    return this.renderer.info.render.triangles;
  }

  /** Lines that were handed to the GPU. */
  get lineCount(): number {
    return this.links.count + this.marks.count;
  }
}
