// Made of crates/web/src/views.rs and crates/api by `CONSTEL_BLESS=1 cargo test -p constel-web`.

export type World = {
  constel: string;
  mode: Mode;
  name: string;
  file: string;
  description: string;
  start_ms: number;
  step_ns: number;
  duration_ns: number;
  max_lateness_ns: number;
  networks: (NetworkView)[];
  may_write: boolean;
  may_shell: boolean;
  nodes: (NodeView)[];
  link_kinds: (string)[];
  constellations: (ConstellationView)[];
  flows: (FlowView)[];
  warnings: (string)[];
};

export type Mode = "plan" | "lab" | "run" | "box";

export type NetworkView = {
  name: string;
  members: (MemberView)[];
};

export type MemberView = {
  node: number;
  port: number;
  away: boolean;
};

export type NodeView = {
  name: string;
  kind: string;
  catalogue_name?: string | null;
  norad_id?: number | null;
  constellation?: number | null;
  seat?: (number)[] | null;
  management?: string | null;
};

export type ConstellationView = {
  name: string;
  satellites: number;
  mask_deg?: number | null;
};

export type FlowView = {
  name: string;
  from: string;
  to: string;
};

export type LinkView = {
  a: string;
  b: string;
  t_ns: number;
  up: boolean;
  why: string;
  edges: (EdgeView)[];
  live?: LinkShown | null;
};

export type EdgeView = {
  from: string;
  to: string;
  kind: string;
  delay_ns: number;
  rate_bps?: number | null;
  usable: boolean;
  state: string;
};

export type LinkShown = {
  a: string;
  b: string;
  up: boolean;
  why: string;
  edges: (EdgeShown)[];
  t_ns?: number | null;
  catalogued?: (Catalogued)[];
  forwarding?: (NodeForwarding)[];
};

export type EdgeShown = {
  from: string;
  to: string;
  delay_ns?: number | null;
  slope_ns_per_s?: number | null;
  rate_bps?: number | null;
  queue_bytes?: number | null;
  loss?: Loss | null;
  effects: BriefEffects;
  counters?: EdgeStats | null;
  dropped_share?: number | null;
};

export type Loss = "none" | {
  bernoulli: {
    loss_ratio: number;
  };
};

export type BriefEffects = Record<string, unknown>;

export type EdgeStats = {
  from: PortId;
  to: PortId;
  impairment?: Impairment | null;
  counters: EdgeCounters;
  held: number;
  queue_bytes: number;
};

export type PortId = number;

export type Impairment = {
  delay: Delay;
  rate_bps?: number | null;
  queue: QueueLimit;
  loss: Loss;
  up_from_ns: number;
  profile?: number;
};

export type Delay = {
  t0_ns: number;
  delay_ns: number;
  slope_ns_per_s: number;
};

export type QueueLimit = {
  bytes: number;
};

export type EdgeCounters = {
  offered: number;
  offered_bytes: number;
  delivered: number;
  delivered_bytes: number;
  duplicated?: number;
  corrupted?: number;
  marked?: number;
  dropped_queue: number;
  dropped_aqm?: number;
  dropped_loss: number;
  dropped_outage: number;
  dropped_removed: number;
  dropped_no_buffer: number;
  dropped_overload?: number;
};

export type Catalogued = {
  node: string;
  catalogue_name?: string | null;
  norad_id?: number | null;
};

export type NodeForwarding = {
  node: string;
  forwarded: number;
  answered: number;
  dropped?: Record<string, number>;
};

export type NodeState = {
  name: string;
  t_ns: number;
  latitude_deg?: number | null;
  longitude_deg?: number | null;
  height_km?: number | null;
  links: (EdgeView)[];
  sky?: (VisibleSatellite)[];
  mask_deg?: number | null;
};

export type VisibleSatellite = {
  name: string;
  node: number;
  azimuth_deg: number;
  elevation_deg: number;
  range_km: number;
  up: boolean;
  why: string;
};

export type Paths = {
  from: string;
  to: string;
  t_ns: number;
  kernel: (Walked)[];
  optimum?: Optimum | null;
  tables_t_ns: number;
  catalogued?: (Catalogued)[];
};

export type Walked = {
  family: string;
  address: string;
  arrived: boolean;
  end: string;
  delay_ns?: number | null;
  hops: (Hop)[];
  path?: number | null;
};

export type Hop = {
  from: string;
  from_port: string;
  to: string;
  to_port: string;
  delay_ns: number;
  next_hops?: number;
};

export type Optimum = {
  delay_ns: number;
  hops: (Hop)[];
};

export type SeriesView = {
  from: string;
  to: string;
  t_s: (number)[];
  delay_ms: (number | null)[];
  hops: (number)[];
  changed: (number)[];
};

export type TrackView = {
  itrf_km: (number)[];
  t_s: (number)[];
};

export type Timeline = {
  events: (Event)[];
  until_ns: number;
  complete: boolean;
};

export type Event = ({
  kind: "starting";
  lab: string;
  nodes: number;
} | {
  kind: "edges-up";
  edges: number;
} | {
  kind: "daemons-started";
  count: number;
} | {
  kind: "routes-converged";
  pairs: number;
  after_s?: number | null;
} | {
  kind: "helpers-started";
  count: number;
} | {
  kind: "running";
  bring_up_s: number;
} | {
  kind: "clock-started";
} | {
  kind: "failure";
  cause: string;
  objects: (string)[];
} | {
  kind: "repair";
  cause: string;
  objects: (string)[];
} | {
  kind: "nodes-moved";
  from: string;
  to: string;
  nodes: (string)[];
  away_s: number;
} | {
  kind: "nodes-set";
  change: NodeChange;
  nodes: (string)[];
} | {
  kind: "scenario-changed";
  file: string;
  copy: string;
  keys: (string)[];
} | {
  kind: "stations-set";
  change: StationChange;
  stations: (string)[];
} | {
  kind: "member-joined";
  network: string;
  node: string;
} | {
  kind: "member-left";
  network: string;
  node: string;
} | {
  kind: "delays-set";
  network: string;
  edges: number;
  reset: boolean;
  delays?: (DelaySet)[];
  range?: DelayRange | null;
} | {
  kind: "handover";
  station: string;
  from?: string | null;
  to?: string | null;
  port?: string | null;
} | {
  kind: "path-changed";
  flow: string;
  from: (string)[];
  to: (string)[];
} | {
  kind: "disjoint-paths";
  pair: string;
  between: (string)[];
  found: number;
  requested: number;
} | {
  kind: "link-set";
  link: string;
  reset: boolean;
  effects: BriefEffects;
  for_ns?: number | null;
} | {
  kind: "user-file";
  node: string;
  name: string;
  bytes?: number | null;
} | {
  kind: "command";
  node: string;
  data: unknown;
} | {
  kind: "rules-changed";
  change: string;
  rule?: string | null;
  rules: number;
} | {
  kind: "policy-joined";
  policy: string;
  within_ns: number;
} | {
  kind: "policy-held";
  policy: string;
  step: number;
  why: string;
} | {
  kind: "policy-left";
  policy: string;
  on_purpose: boolean;
} | {
  kind: "confirmed";
} | {
  kind: "unconfirmed";
} | {
  kind: "daemon-died";
  node: string;
  program: string;
  how: string;
  again_in_s?: number | null;
} | {
  kind: "daemon-restarted";
  node: string;
  program: string;
} | {
  kind: "helper-died";
  node: string;
  how: string;
} | {
  kind: "containers-started";
  count: number;
} | {
  kind: "container-ended";
  node: string;
  how: string;
  again_in_s?: number | null;
} | {
  kind: "container-restarted";
  node: string;
} | {
  kind: "container-healthy";
  node: string;
} | {
  kind: "container-unhealthy";
  node: string;
  how: string;
} | {
  kind: "stack-changed";
  node: string;
  changed: (string)[];
  restored: (string)[];
  left: (string)[];
} | {
  kind: "flow-started";
  flow: string;
} | {
  kind: "flow-ended";
  flow: string;
  exit: number;
} | {
  kind: "older";
  events: number;
  file: string;
} | {
  kind: "stopping";
} | {
  kind: "finished";
  trustworthy: boolean;
  failed?: boolean;
}) & ({
  seq: number;
  t_ns?: number | null;
  wall: string;
  catalogued?: (Catalogued)[];
});

export type NodeChange = "fail" | "heal" | "stop" | "start" | "restart" | "pause" | "resume" | "remove" | "add";

export type StationChange = {
  kind: "attach";
  satellite: string;
  antenna?: number | null;
} | {
  kind: "detach";
  antenna?: number | null;
} | {
  kind: "policy";
  policy?: unknown;
};

export type DelaySet = {
  from: string;
  to: string;
  delay_ns: number;
};

export type DelayRange = {
  min_ns: number;
  median_ns: number;
  max_ns: number;
};

export type RunView = {
  manifest: Manifest;
  summary?: Summary | null;
};

export type Manifest = {
  version?: number;
  constel: string;
  lab: string;
  scenario: string;
  seed: number;
  start: string;
  duration_ns?: number | null;
  step_ns: number;
  clock_hold: string;
  routing: Section;
  node_settings: Record<string, string>;
  ospf?: Ospf | null;
  traffic: boolean;
  inputs: (Input)[];
  left_out: number;
  data_ages: (DataAge)[];
  catalogued?: (Catalogued)[];
  images?: (UsedImage)[];
  driver: Driver;
  bounds: Bounds;
  runtime: string;
  host: Host;
  between?: MachineTransportReport | null;
  host_settings: Record<string, HostSetting>;
  command_line: (string)[];
};

export type Section = unknown;

export type Ospf = {
  timers: OspfTimers;
  rfc2328_samples: OspfSamples;
  areas?: (Area)[] | null;
  lasers_in_no_area?: number | null;
  start: Section;
  kernel_events: boolean;
};

export type OspfTimers = {
  hello_s: number;
  dead_s: number;
  ground: HelloTimers;
  retransmit_s: number;
  tick_s: number;
};

export type HelloTimers = {
  hello_s: number;
  dead_s: number;
};

export type OspfSamples = {
  hello_s: number;
  dead_s: number;
  retransmit_s: number;
};

export type Area = {
  shell: string;
  area: number;
  satellites: number;
  border_routers: number;
};

export type Input = {
  path: string;
  bytes: number;
  sha256: string;
};

export type DataAge = {
  constellation: string;
  file: string;
  median_days?: number | null;
  farthest_days?: number | null;
  warning?: string | null;
};

export type UsedImage = {
  name: string;
  id: string;
  manifest?: string | null;
  source: string;
  nodes: number;
};

export type Driver = {
  name: DriverKind;
  why: string;
  capabilities: Capabilities;
  grain_ns: number;
  threads?: DriverThreads | null;
  deducts_stack_time?: boolean | null;
};

export type DriverKind = "relay" | "edt" | "netem";

export type Capabilities = {
  driver: DriverKind;
  delay_glides: boolean;
  atomic_updates: boolean;
  keeps_order: boolean;
  seeded: boolean;
  queue_in_bytes: boolean;
  measures_lateness: boolean;
  mtu_max_bytes?: number;
  effects?: (string)[] | null;
};

export type DriverThreads = {
  count: number;
  why: string;
  processors: (number)[];
};

export type Bounds = {
  lateness_p99_ns: number;
  step_lateness_ns: number;
  processor_wait_ratio: number;
};

export type Host = {
  kernel?: string | null;
  cpus: number;
  cpu_model?: string | null;
  memory_bytes?: number | null;
  load_average?: string | null;
};

export type MachineTransportReport = {
  transport: string;
  why: string;
  frame_bytes: number;
  mtu_wanted_bytes: number;
  mtu_bytes?: number | null;
};

export type HostSetting = {
  before?: number | null;
  at_least: number;
};

export type Summary = {
  version?: number;
  lab: string;
  scenario: string;
  seed: number;
  interrupted: boolean;
  lab_time_ns: number;
  size: Size;
  times: Times;
  routing?: string | null;
  convergence: Convergence;
  converged?: Converged | null;
  link_state?: Messages | null;
  disjoint?: (DisjointRow)[];
  daemons?: (DaemonsRow)[];
  channels?: (ChannelRow)[];
  transport?: (HelpersRow)[];
  handovers: (HandoverRow)[];
  further_handovers?: number;
  changes?: (ChangeRow)[];
  further_changes?: number;
  stacks?: (StackRow)[];
  flows: (FlowRow)[];
  steps: StepRows;
  relay: PlaneReport;
  lateness_by_class?: (ClassLateness)[];
  fidelity: Fidelity;
  bounds?: Bounds;
  plans?: Plans | null;
  policies?: (PolicyRow)[];
  crossed?: (CrossedRow)[];
  machines?: (MachineRow)[];
  verdict: Verdict;
  software?: Software;
};

export type Size = {
  nodes: number;
  containers?: number;
  ports: number;
  edges: number;
  memory_per_node_bytes: number;
};

export type Times = {
  nodes_s: number;
  edges_s: number;
  daemons_s: number;
  containers_s?: number;
  daemons_held_back_s: number;
  bring_up_s: number;
  take_down_s: number;
};

export type Convergence = {
  first_s?: number | null;
  pairs: number;
  control?: ControlRow | null;
};

export type ControlRow = {
  frames: number;
  bytes: number;
  frames_per_edge: Quantiles;
  bytes_per_edge: Quantiles;
};

export type Quantiles = {
  count: number;
  min: number;
  p50: number;
  p99: number;
  max: number;
  mean: number;
};

export type Converged = {
  nodes: number;
  samples: number;
  complete: number;
  least_nodes: number;
  least_right_ratio: number;
  mean_right_ratio: number;
};

export type Messages = {
  originated: number;
  sent: number;
};

export type DisjointRow = {
  name: string;
  between: (string)[];
  steps_by_paths: (number)[];
  paths: (DisjointPathRow)[];
};

export type DisjointPathRow = {
  changes: number;
  delay_ns?: Quantiles | null;
};

export type DaemonsRow = {
  when: string;
  program: string;
  machine?: string | null;
  count: number;
  cpu_total_s: number;
  cpu_s: Quantiles;
  private_bytes: Quantiles;
  resident_bytes: Quantiles;
  control_packets?: Quantiles | null;
};

export type ChannelRow = {
  network: string;
  node: string;
  sent: number;
  airtime_ns: number;
  received: number;
  collisions: number;
  missed_while_sending: number;
  noise: number;
  refused_full: number;
  refused_long: number;
};

export type HelpersRow = {
  kind: string;
  nodes: (string)[];
  cpu_s?: Quantiles | null;
  peak_rss_bytes?: Quantiles | null;
};

export type HandoverRow = {
  t_ns: number;
  station: string;
  from?: string | null;
  to?: string | null;
  port?: string | null;
  converged_after_ns?: number | null;
  lost_probes?: number | null;
  control?: ControlRow | null;
};

export type ChangeRow = {
  t_ns: number;
  kind: ChangeKind;
  cause: string;
  objects: (string)[];
  converged_after_ns?: number | null;
  lost_probes?: number | null;
  control?: ControlRow | null;
};

export type ChangeKind = "failure" | "repair" | "link-set" | "daemon-died";

export type StackRow = {
  node: string;
  first_ns: number;
  last_ns: number;
  changed_ns: number;
  times: number;
  changed: (string)[];
  restored: boolean;
  left?: (string)[];
};

export type FlowRow = {
  name: string;
  kind: string;
  from: string;
  to?: string | null;
  at_ns: number;
  status: FlowStatus;
  reason?: string | null;
  end?: ClientEnd | null;
  rtt?: Rtt | null;
  rtt_resolution_ns?: number | null;
  owd?: Owd | null;
  owd_back?: Owd | null;
  throughput_bps?: number | null;
  received_bytes?: number | null;
  sent_bytes?: number | null;
  sent_packets?: number | null;
  in_flight_packets?: number | null;
  loss_ratio?: number | null;
  duplicate_packets?: number | null;
  reordered_packets?: number | null;
  late_packets?: number | null;
  retransmits?: number | null;
  client_cpu_s?: number | null;
  server_cpu_s?: number | null;
  took_ns?: number | null;
  samples?: number;
  marked_samples?: number;
  late_worst_ns?: number | null;
  trustworthy?: boolean | null;
  doubt?: string | null;
  changed_stacks?: (string)[];
  handovers: number;
  paths: ((string)[])[];
  unlisted_path_steps?: number;
  path_rtt?: Rtt | null;
  bound_rtt?: Rtt | null;
};

export type FlowStatus = "ok" | "failed" | "cut-short";

export type ClientEnd = {
  how: "by-itself";
  t_ns: number;
  exit: number;
  early: boolean;
} | {
  how: "at-its-time";
} | {
  how: "node-down";
} | {
  how: "removed";
} | {
  how: "cut-short";
} | {
  how: "not-started";
};

export type Rtt = {
  min_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
};

export type Owd = {
  min_ns: number;
  mean_ns: number;
  p50_ns: number;
  p95_ns: number;
  p99_ns: number;
  max_ns: number;
};

export type StepRows = {
  count: number;
};

export type PlaneReport = {
  driver?: DriverKind;
  at_ns: number;
  totals: Totals;
  emulator_drops: Causes;
  lateness?: TimeQuantiles | null;
  own_lateness?: TimeQuantiles | null;
  late_frames?: LateFrames | null;
  stalls?: StallStats | null;
  early?: number | null;
};

export type Totals = {
  edges: number;
  counters: EdgeCounters;
  dropped_no_edge: number;
  held: number;
};

export type Causes = Record<string, number>;

export type TimeQuantiles = {
  count: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  p999_ns: number;
  max_ns: number;
};

export type LateFrames = {
  up_to_ns: (number)[];
  frames: (number)[];
};

export type StallStats = {
  count: number;
  total_ns: number;
  longest_ns: number;
  in_run_queue_ns: number;
  slow_ns?: number;
  least_speed_ratio?: number | null;
};

export type ClassLateness = {
  class: string;
  lateness: TimeQuantiles;
  own_lateness: TimeQuantiles;
};

export type Fidelity = {
  frames_released: number;
  lateness_p99_ns: number;
  lateness_max_ns: number;
  own_lateness_p99_ns?: number;
  machine?: Machine;
  frames_early: number;
  emulator_drops: ([string, number])[];
  steps_late: number;
  steps: number;
  step_lateness_max_ns: number;
  affected_flows?: (string)[];
  failures: (string)[];
};

export type Machine = {
  stalls: number;
  stalled_ns: number;
  longest_stall_ns: number;
  in_run_queue_ns: number;
  steal_ns: number;
  slow_ns?: number;
  least_speed_ratio?: number | null;
  processor_wait_ratio?: number | null;
};

export type Plans = {
  steps: number;
  hash: string;
};

export type PolicyRow = {
  name: string;
  within_ns: number;
  steps: number;
  decided: number;
  late: number;
  refused: number;
  changes: number;
  answer_ns?: Quantiles | null;
  state_ns?: Quantiles | null;
  stayed: boolean;
};

export type CrossedRow = {
  from: string;
  arrived: number;
  lost: number;
  refused: number;
  copies: number;
  late: number;
};

export type MachineRow = {
  machine: string;
  nodes: number;
  trustworthy?: boolean | null;
  failure?: string | null;
  results?: string | null;
  crossed?: (CrossedRow)[];
  lost?: LostRow | null;
};

export type LostRow = {
  from_ns: number;
  nodes: (string)[];
  moved?: (MovedRow)[];
};

export type MovedRow = {
  to: string;
  from_ns: number;
  nodes: (string)[];
};

export type Verdict = {
  trustworthy: boolean;
  reasons: (string)[];
};

export type Software = {
  failed: boolean;
  failures: (SoftwareFailure)[];
};

export type SoftwareFailure = {
  node: string;
  flow?: string | null;
  reason: string;
};

export type Columns = {
  names: (string)[];
  columns: ((number | null)[])[];
};

export type Routes = {
  node: string;
  routes: (Route)[];
  t_ns?: number | null;
  catalogued?: (Catalogued)[];
};

export type Route = {
  destination: string;
  to?: string | null;
  kind: string;
  hops: (NextHop)[];
  source?: string | null;
  metric: number;
  protocol: string;
};

export type NextHop = {
  gateway?: string | null;
  port?: string | null;
  via?: string | null;
};

export type Shown = {
  lab: string;
  state: LabState;
  scenario: string;
  pid: number;
  nodes: number;
  edges: number;
  t_ns?: number | null;
  node_list?: (NodeShown)[] | null;
  management?: ManagementShown | null;
  relay?: PlaneReport | null;
};

export type LabState = "starting" | "running" | "stopping" | "dead";

export type NodeShown = {
  name: string;
  kind: string;
  catalogue_name?: string | null;
  norad_id?: number | null;
  ipv4: string;
  ipv6: string;
  links: number;
  management?: string | null;
  forwarding?: Forwarding | null;
  state?: string | null;
  usage?: NodeUsage | null;
};

export type Forwarding = {
  forwarded: number;
  answered: number;
  dropped?: Record<string, number>;
};

export type NodeUsage = {
  cpu_ns?: number | null;
  memory_bytes?: number | null;
  read_bytes?: number | null;
  written_bytes?: number | null;
  processes?: number | null;
};

export type ManagementShown = {
  interface: string;
  host: string;
  subnet: string;
};

export type BoxShown = {
  lab: string;
  state: LabState;
  scenario: string;
  pid: number;
  nodes: number;
  edges: number;
  t_ns?: number | null;
  mode: string;
  seed: number;
  interfaces: (WireShown)[];
  rules: (RuleShown)[];
  unmatched: Record<string, DirectionCounters>;
  removed: EdgeCounters;
  confirm_within_s?: number | null;
  relay?: PlaneReport | null;
};

export type WireShown = {
  name: string;
  mac: string;
  mtu: number;
  sent: number;
  refused: number;
};

export type RuleShown = {
  name: string;
  rule: unknown;
  directions: Record<string, DirectionCounters>;
};

export type DirectionCounters = {
  frames: number;
  bytes: number;
  drops: number;
  duplicates: number;
  queue_frames: number;
  average_bps: number;
  present_bps: number;
  last_frame_s?: number | null;
  queue_bytes: number;
  inside?: TimeQuantiles | null;
  lateness?: TimeQuantiles | null;
  counters: EdgeCounters;
  via?: ViaShown | null;
};

export type ViaShown = {
  delay_ns?: number | null;
  satellites: (string)[];
  radio_bps?: number | null;
};

export type LinkSet = {
  at_mono_ns: number;
  edges: (EdgeSet)[];
  port?: string | null;
  routes?: RoutesAfter;
};

export type EdgeSet = {
  from: PortId;
  to: PortId;
  effects: BriefEffects;
};

export type RoutesAfter = {
  state: "untouched";
} | {
  state: "converged";
  after_ns: number;
} | {
  state: "not-yet";
  waited_ns: number;
} | {
  state: "not-awaited";
} | {
  state: "not-ours";
};

export type NetworkShown = {
  network: string;
  members: (MemberShown)[];
};

export type MemberShown = {
  node: string;
  port: string;
  joined: boolean;
  edges: number;
};

export type FlowNow = {
  id: number;
  tool: Tool;
  from: string;
  to: string;
  samples: (number)[];
  words: (string)[];
  ended: boolean;
};

export type Tool = "ping" | "tcp";

export type SocketMessage = {
  op: "events";
  events: (Event)[];
} | {
  op: "now";
  lab?: LabRow | null;
  health?: PlaneReport | null;
  ended: boolean;
} | {
  op: "loads";
  t_ns?: number | null;
  links: (LinkLoad)[];
} | {
  op: "refused";
  error: string;
};

export type LabRow = {
  lab: string;
  state: LabState;
  scenario: string;
  pid: number;
  nodes: number;
  edges: number;
  t_ns?: number | null;
};

export type LinkLoad = {
  a: number;
  b: number;
  load: number;
};

export type DraftView = {
  errors: (DraftError)[];
  plan?: DraftPlan | null;
};

export type DraftError = {
  line: number;
  message: string;
  help: (string)[];
};

export type DraftPlan = {
  world: World;
  step_hex: string;
  edges: number;
  sampled_s: number;
  stations: (DraftStation)[];
  flows: (DraftFlow)[];
  warnings: (string)[];
};

export type DraftStation = {
  station: string;
  dark_s: number;
  handovers: number;
};

export type DraftFlow = {
  flow: string;
  from: string;
  to: string;
  path_ratio?: number | null;
  delay_ns?: number | null;
  nodes: (string)[];
};
