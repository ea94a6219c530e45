//! The texts after the flags in `--help`: details of a verb, then examples of its use.

pub(super) const DEMO: &str = "\
Emulates Iridium NEXT and six cities, and measures round-trip times between them. Needs nothing but root.
Prints the next steps.

Examples:
  constel demo
  constel demo --print > demo.yaml";

pub(super) const INIT: &str = "\
Examples:
  constel init mine.yaml
  constel init mine.yaml --constellation iridium --cities Lagos,London --routing computed --for 60s";

pub(super) const RUN: &str = "\
The results folder keeps everything that was measured; `constel results` reads it.

Examples:
  constel run mine.yaml
  constel run mine.yaml --for 60s --set links.driver=relay --results results/first";

pub(super) const UP: &str = "\
Returns when the lab is up; exit codes until then are those of `run`. Without `duration` in the scenario the lab stays until
`constel down`. After a crash of the machine `constel clean` prints what was running.

Examples:
  constel up mine.yaml
  constel up mine.yaml --no-end --attach";

pub(super) const RESTART: &str = "\
Uses the arguments with which the lab was started, and a new folder of results.

Example:
  constel restart mine";

pub(super) const LOGS: &str = "\
Examples:
  constel logs mine -f
  constel logs mine london";

pub(super) const SWEEP: &str = "\
Writes means, confidence intervals and a picture. A stopped sweep resumes where it was.

Examples:
  constel sweep mine.yaml --seeds 1..10
  constel sweep mine.yaml --seeds 1..3 --set links.driver=relay,edt --csv
  constel sweep mine.yaml --seeds 1..100 --time virtual --out study --shard 2/4
  constel sweep merge study";

pub(super) const SWEEP_MERGE: &str = "\
Examples:
  constel sweep merge study
  constel sweep merge from-a from-b --out study --csv";

pub(super) const TEST: &str = "\
Prints a line for each statement.

Examples:
  constel test mine.yaml
  constel test mine.yaml --repeat 5 --junit report.xml";

pub(super) const CHECK: &str = "\
Creates nothing and needs no root.

Examples:
  constel check mine.yaml
  constel check mine.yaml --here";

pub(super) const PLAN: &str = "\
Creates nothing and needs no root.

Examples:
  constel plan mine.yaml --at 30s
  constel plan mine.yaml --contacts --csv
  constel plan mine.yaml --export svg --out map.svg";

pub(super) const IMPORT: &str = "\
Prints a note for every property that cannot be converted.

Examples:
  constel import config.json --out mine.yaml
  constel import constellation.xml --stations stations.xml --out mine.yaml
  constel import trace ping.txt --out victoria";

pub(super) const IMAGE: &str = "\
Examples:
  constel image build --file router/Dockerfile router
  constel image import docker://alpine:3 --name alpine
  constel image list";

pub(super) const BOX: &str = "\
Examples:
  constel box eth1 eth2 --rules box.yaml
  constel box show box-eth1-eth2";

pub(super) const BOX_IMPORT: &str = "\
Prints a note for every property that cannot be converted.

Example:
  constel box import rows.txt --out box.yaml";

pub(super) const LIST: &str = "\
Example:
  constel list";

pub(super) const SHOW: &str = "\
Examples:
  constel show mine
  constel show mine --json";

/// The parts of the host that a node's commands share.
const SHARED: &str = "\
A node has its own network, host name, /tmp, /run and /dev/shm, and sees only the processes of its lab.
It shares with the host: the kernel, users, the clock, and all other files, which commands may change with
the permissions of their user. Nodes of an image have that image's files instead. docs/reference/nodes.md
has the whole list. `vtysh` and `birdc` control the node's own daemons.";

pub(super) fn exec() -> String {
    format!(
        "The command's streams and exit code pass through.

{SHARED}

Examples:
  constel exec mine london -- ping -c 3 lagos
  constel exec mine 'iridium-p00-*' -- ip route"
    )
}

pub(super) fn shell() -> String {
    format!(
        "{SHARED}

Example:
  constel shell mine london"
    )
}

pub(super) const CP: &str = "\
Examples:
  constel cp mine tool london:/tmp/tool
  constel cp mine london:/tmp/log.txt log.txt";

pub(super) const INFO: &str = "\
A file changes at one instant: no program reads a part of it.

Examples:
  constel info put mine london policy.json policy.json
  constel info send mine london '{\"do\": \"reload\"}'";

pub(super) const LINK: &str = "\
`fail` drops arriving and queued frames.

Examples:
  constel link mine london iridium-p00-s00
  constel link set mine london iridium-p00-s00 --loss '1 %' --extra-delay 20ms
  constel link fail mine london iridium-p00-s00";

pub(super) const NODE: &str = "\
Links fail at once; stations choose other satellites within two steps of the scenario. `start` and `heal` bring links back within two
steps.

Examples:
  constel node fail mine iridium-p00-s00
  constel node stop mine 'iridium-p00-*'
  constel node start mine 'iridium-p00-*'";

pub(super) const STATION: &str = "\
Changes hold from a step of the scenario on, at most two steps later, until the next one. An attached antenna is dark while it cannot use
its satellite.

Examples:
  constel station attach mine tokyo iridium-p00-s00
  constel station detach mine tokyo
  constel station policy mine tokyo
  constel station policy mine '*' --to hysteresis=5deg";

pub(super) const APPLY: &str = "\
Failures, flows, policies and the values of links change while the lab runs. If anything else differs, nothing is changed, and the exit code
is 1.

Examples:
  constel apply mine.yaml --dry-run
  constel apply mine.yaml
  constel apply other.yaml --name mine";

pub(super) const NETWORK: &str = "\
`join` and `leave` return when computed routes have followed.

Examples:
  constel network show mine
  constel network leave mine backbone london";

pub(super) const ROUTES: &str = "\
Example:
  constel routes mine london";

pub(super) const PATH: &str = "\
Follows the routes hop by hop, and compares the path with the one of least delay.

Examples:
  constel path mine london lagos
  constel path mine london lagos --at 30s";

pub(super) const EVENTS: &str = "\
Examples:
  constel events mine
  constel events mine --follow --json";

pub(super) const TOP: &str = "\
Example:
  constel top mine --rows 10";

pub(super) const METRICS: &str = "\
Examples:
  constel metrics mine
  constel metrics mine --listen 127.0.0.1:9100";

pub(super) const CAPTURE: &str = "\
Example:
  constel capture mine london --write london.pcapng --for 10s";

pub(super) const DOWN: &str = "\
Examples:
  constel down mine
  constel down --all";

pub(super) const CLEAN: &str = "\
Example:
  constel clean";

pub(super) const DOCTOR: &str = "\
Example:
  constel doctor";

pub(super) const RESULTS: &str = "\
Examples:
  constel results
  constel results plot results/first
  constel results plot results/first ping --format pdf --width 3.4in
  constel results compare results/first results/second
  constel results compare-with results/first ping.txt";

pub(super) const WEB: &str = "\
Serves on a loopback address only.

Examples:
  constel web mine
  constel web --plan mine.yaml";

pub(super) const AGENT: &str = "\
Reports the state of this machine to the store; ends at Ctrl-C.

Example:
  constel agent --store etcd://10.0.0.1:2379 --weight 2 --underlay eth1";

pub(super) const MACHINES: &str = "\
Example:
  constel machines --store etcd://10.0.0.1:2379";

pub(super) const COMPLETION: &str = "\
Example:
  source <(constel completion bash)";
