// The picture: a globe, a map or a topology of the same nodes and links, in at most eight draw calls.

import * as THREE from "three";
import { aim, type Eye, towards } from "./aim";
import type { Vector } from "./arcs";
import type { City } from "./cities";
import { type Link, type Links, key } from "./frame";
import { Feet, type Foot } from "./feet";
import { type Grid, grid } from "./grid";
import { land } from "./land";
import { Lines } from "./lines";
import { Pace } from "./pace";
import { Palette, along, rgb } from "./palette";
import { EARTH_KM, numbersOf, Positions } from "./positions";
import { DelayScale } from "./scale";
import * as S from "./shaders";
import { HALF_ANGLE, Sight } from "./sight";
import { Swarm } from "./swarm";
import { Track } from "./track";
import { Trails } from "./trails";
import { uniforms } from "./uniforms";
import type { World } from "./types";
import type { Shade, View } from "./views";

/** How the shaders place nodes. The swarm is a topology whose places follow the craft. */
const PLACED: Record<View, number> = { globe: 0, map: 1, topology: 2, swarm: 2 };
/** More satellites than that have no trails unless they are requested: each trail is a line of many pieces. */
const TRAILED = 400;

/** A line between two nodes that is drawn beside the links. */
export interface Marked {
  a: number;
  b: number;
  colour: string;
  width: number;
  dash: number;
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
  private readonly pace: Pace;
  readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly uniforms: Record<string, THREE.IUniform>;
  /** Range of the delays of the links so far. */
  readonly delays = new DelayScale();
  /** Called when that range has grown. */
  rescaled: () => void = () => {};
  /** Places of the topology. */
  readonly grid: Grid;
  /** The swarm as its chief sees it; `null` without spacecraft. */
  readonly swarm: Swarm | null;
  /** Largest first; empty until the land has come. */
  cities: City[] = [];
  private readonly links: Lines;
  private readonly marks: Lines;
  private readonly earth: THREE.Mesh;
  private readonly globeMesh: THREE.BufferGeometry;
  private readonly mapMesh: THREE.BufferGeometry;
  private readonly air: THREE.Mesh;
  private readonly track: Track;
  private readonly trails: Trails;
  private readonly nodes: Positions;
  private readonly gridPlaces: THREE.DataTexture;
  private readonly nodeLook: THREE.BufferAttribute;
  private linkVersion = -1;
  private readonly sight: Sight;
  private readonly feet: Feet;

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
    this.pace = new Pace(context ? null : (this.renderer.getContext() as WebGL2RenderingContext));
    this.renderer.setClearColor(0, 0);
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
    this.nodes = new Positions(world.nodes.length);
    this.gridPlaces = numbersOf(world.nodes.length);
    this.grid = grid(world.nodes, world.constellations);
    this.grid.places.forEach(([x, y], i) => (this.gridPlaces.image.data as Float32Array).set([x, y, 0, 1], 4 * i));
    this.swarm = Swarm.of(world, numbersOf(world.nodes.length));
    this.uniforms = uniforms(this.nodes.now, this.nodes.then, this.gridPlaces);
    this.sight = new Sight(this.uniforms.uEye.value);
    this.feet = new Feet(this.uniforms);
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
    this.trails = new Trails(this.uniforms, world);
    this.trails.mesh.visible = this.trails.count <= TRAILED;
    this.track = new Track(this.uniforms);
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
    for (const one of [this.earth, this.air, this.links.mesh, this.trails.mesh, this.track.line, this.marks.mesh, nodes]) {
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
    void land(this.card ? 4096 : 2048).then(({ canvas, cities }) => {
      const land = new THREE.CanvasTexture(canvas);
      land.wrapS = THREE.RepeatWrapping;
      land.anisotropy = this.card ? Math.min(4, this.renderer.capabilities.getMaxAnisotropy()) : 1;
      this.uniforms.uLand.value = land;
      this.cities = cities;
      this.dirty = true;
    });
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
      this.trails.tone(i, soft);
    });
    this.nodeLook.needsUpdate = true;
    this.linkVersion = -1;
    this.dirty = true;
  }

  /** Positions of a step and of later, ITRF km. */
  positions(now: Float32Array, then: Float32Array, sun: [number, number, number], spanS: number): void {
    this.uniforms.uSpan.value = spanS;
    this.nodes.put(now, then);
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
        return [...along(scale, this.delays.share(link.delayMs)), Math.max(alpha, 0.6)];
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
    if (this.delays.take(all.map((link) => link.delayMs))) this.rescaled();
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

  /** Shows the future track of a satellite; null for none. */
  fly(itrfKm: number[] | null): void {
    this.track.show(itrfKm, EARTH_KM, rgb(this.palette.kinds[0]));
    this.dirty = true;
  }

  /** Shows the areas that satellites cover. */
  cover(feet: Foot[]): void {
    this.feet.cover(feet);
    this.dirty = true;
  }

  /** A node's position now, Earth's radii. */
  at(node: number, out = new THREE.Vector3()): THREE.Vector3 {
    return this.nodes.at(node, this.uniforms.uMix.value as number, out);
  }

  /** Where a node is on the screen, pixels; null: behind the Earth or nowhere. */
  screen(node: number): [number, number] | null {
    if (PLACED[this.view] === 2) {
      const [x, y, , there] = this.places.subarray(4 * node, 4 * node + 4);
      return there ? this.pixels(x, y) : null;
    }
    return this.onScreen(this.at(node, this.scratch));
  }

  /** Where a place (Earth's radii, ITRF) is on the screen of the globe or the map, pixels; null: behind the Earth or nowhere. Changes `p`. */
  onScreen(p: THREE.Vector3): [number, number] | null {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!Number.isFinite(p.x) || p.lengthSq() === 0) return null;
    if (this.view === "globe") return this.sight.screen(p, w, h);
    return this.pixels(Math.atan2(p.y, p.x), Math.asin(p.z / p.length()));
  }

  /** Places of nodes in a view that does not follow the Earth: x, y, and whether they are there. */
  private get places(): Float32Array {
    return (this.uniforms.uGrid.value as THREE.DataTexture).image.data as Float32Array;
  }

  private goal: Eye | null = null;

  /** Turns the picture so that all of these nodes are in view; at once, unless it may move. */
  show(nodes: number[], calm: boolean): void {
    const places = nodes.map((node) => this.at(node).toArray() as Vector);
    const aspect = Math.min(1, this.canvas.clientWidth / Math.max(1, this.canvas.clientHeight));
    const eye = aim(places, Math.atan(Math.tan(HALF_ANGLE) * aspect));
    if (!eye) return;
    if (nodes.length === 1) eye.far = this.eye.far;
    if (this.view !== "globe") {
      const { clientWidth: w, clientHeight: h } = this.canvas;
      const isIn = (at: [number, number] | null) => at !== null && at[0] >= 0 && at[0] <= w && at[1] >= 0 && at[1] <= h;
      if (nodes.every((node) => isIn(this.screen(node)))) return;
      Object.assign(this.flat, { x: 0, y: 0, zoom: 1 });
    } else if (calm) Object.assign(this.eye, eye);
    else this.goal = eye;
    this.dirty = true;
  }

  /** Stops turning: the reader has taken the picture. */
  let(): void {
    this.goal = null;
  }

  /** Whether all of these nodes are on the screen. */
  sees(nodes: number[]): boolean {
    return this.goal !== null || nodes.every((node) => this.screen(node) !== null);
  }

  get trailing(): boolean {
    return this.trails.mesh.visible;
  }

  set trailing(on: boolean) {
    this.trails.mesh.visible = on;
    this.dirty = true;
  }

  /** The direction from the Earth's centre to the ground that the globe or the map shows at a pixel; null: beside the Earth. */
  under(x: number, y: number): Vector | null {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (PLACED[this.view] === 2) return null;
    if (this.view === "globe") return this.sight.under(x, y, w, h);
    const [centre, scale] = [this.uniforms.uMapCentre.value, this.uniforms.uMapScale.value];
    const [lon, lat] = [centre.x + ((2 * x) / w - 1) / scale.x, centre.y + (1 - (2 * y) / h) / scale.y];
    return [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)];
  }

  /** Where the map shows a direction, pixels. */
  onMap(p: Vector): [number, number] {
    return this.pixels(Math.atan2(p[1], p[0]), Math.asin(p[2] / Math.hypot(...p)));
  }

  /** Where a point of the map or the topology is on the screen. */
  pixels(x: number, y: number): [number, number] {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const [centre, scale] = [this.uniforms.uMapCentre.value, this.uniforms.uMapScale.value];
    return [(((x - centre.x) * scale.x + 1) / 2) * w, ((1 - (y - centre.y) * scale.y) / 2) * h];
  }

  private readonly scratch = new THREE.Vector3();

  /** Frees the graphics card: there is another picture. */
  end(): void {
    this.renderer.dispose();
    this.renderer.forceContextLoss();
  }

  resize(): void {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w || !h) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(w, h, false);
    this.sight.aspect = w / h;
    this.uniforms.uViewport.value.set(w, h);
    this.dirty = true;
  }

  /** Draws, if anything has changed. */
  draw(mix: number, march: number | null): boolean {
    if (this.goal) {
      const [eye, arrived] = towards(this.eye, this.goal, 0.16);
      Object.assign(this.eye, eye);
      if (arrived) this.goal = null;
      this.dirty = true;
    }
    if (march !== null && this.marks.count) this.dirty = true;
    if (this.uniforms.uMix.value !== mix) this.dirty = true;
    if (!this.dirty || !this.pace.may(performance.now())) return false;
    if (!this.placed && !this.card) {
      // Processors that draw an empty globe first draw the sky later.
      if (!this.compiled) this.renderer.compile(this.scene, this.sight.camera);
      this.compiled = true;
      return false;
    }
    const began = performance.now();
    this.dirty = false;
    const { uniforms: u, canvas } = this;
    u.uMix.value = mix;
    u.uMarch.value = march ?? 0;
    u.uView.value = PLACED[this.view];
    u.uGrid.value = this.view === "swarm" && this.swarm ? this.swarm.places : this.gridPlaces;
    u.uPicked.value = this.picked;
    for (const lines of [this.links, this.marks]) lines.bend(this.view === "map");
    const ratio = this.renderer.getPixelRatio();
    const many = this.world.nodes.length;
    const close = this.view === "globe" ? 3.9 / this.eye.far : this.flat.zoom;
    u.uSize.value = Math.min(12, (many > 3000 ? 2.6 : many > 600 ? 3.4 : 5.5) * Math.max(0.8, Math.sqrt(close))) * ratio;
    u.uWidth.value = (many > 600 ? 1.0 : 1.4) * (this.view === "topology" && many > 600 ? 0.7 : 1);
    if (this.view === "swarm") this.swarm?.place(this.picked[0], (node) => this.at(node).toArray() as Vector, this.nodes.now, this.nodes.then, u.uSpan.value, EARTH_KM);
    this.sight.look(this.eye, u.uCamera.value);
    const aspect = canvas.clientWidth / Math.max(1, canvas.clientHeight);
    const fit = Math.min(1 / 3.25, 1 / (1.66 * aspect));
    u.uMapScale.value.set(fit * this.flat.zoom, fit * aspect * this.flat.zoom);
    u.uMapCentre.value.set(this.flat.x, this.flat.y);
    const mesh = this.view === "globe" ? this.globeMesh : this.mapMesh;
    if (this.earth.geometry !== mesh) this.earth.geometry = mesh;
    this.earth.visible = PLACED[this.view] !== 2;
    this.air.visible = this.view === "globe";
    this.feet.put((node) => this.at(node, this.scratch), rgb(this.palette.kinds[0]));
    this.renderer.render(this.scene, this.sight.camera);
    this.pace.drew(began);
    this.scriptMs = performance.now() - began;
    if (this.placed) this.shown();
    return true;
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
