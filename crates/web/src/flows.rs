//! Flows that the page starts: pings and TCP transfers between nodes, with the tools that scenarios use. They end by
//! themselves, and with the server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::child::terminate;
use crate::views::{FlowNow, Tool};

/// Most flows at a time.
const FLOWS: usize = 8;

/// Longest flow, seconds.
const LONGEST_S: u32 = 600;

/// Flows that are remembered.
const KEPT: usize = 32;

/// Samples of a flow that are kept: two a second for the longest.
const SAMPLES: usize = 2 * LONGEST_S as usize;

/// Maximum number of kept output lines that are not samples, such as errors of a tool.
const WORDS: usize = 8;

/// A flow that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowOrder {
    /// Tool of the flow.
    pub(crate) tool: Tool,
    /// Source node.
    pub(crate) from: String,
    /// Destination node.
    pub(crate) to: String,
    /// How long it takes, seconds.
    #[schemars(range(min = 1, max = LONGEST_S))]
    pub(crate) for_s: u32,
}

/// All flows of a server; those that run end with it.
pub(crate) struct Flows {
    program: Option<PathBuf>,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    flows: Vec<Flow>,
    latest: u32,
}

struct Flow {
    now: FlowNow,
    /// The tool, after the programs that it needs at the other end.
    children: Vec<Child>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        for child in &mut self.children {
            // `constel exec` forwards signals to its command, whereas a kill would leave that command behind.
            terminate(child);
        }
    }
}

fn lock(all: &Mutex<All>) -> MutexGuard<'_, All> {
    all.lock().unwrap_or_else(|e| e.into_inner())
}

impl Flows {
    pub(crate) fn new(program: Option<PathBuf>) -> Self {
        Self {
            program,
            all: Arc::default(),
        }
    }

    /// As they are now.
    pub(crate) fn views(&self) -> Vec<FlowNow> {
        lock(&self.all)
            .flows
            .iter()
            .map(|flow| flow.now.clone())
            .collect()
    }

    /// Starts one; its number.
    ///
    /// # Errors
    /// When too many run, or its tool cannot be started.
    pub(crate) fn start(&self, lab: &str, order: &FlowOrder) -> Result<u32, String> {
        let program = self.program.as_ref().ok_or("no flow can be started here")?;
        if !(1..=LONGEST_S).contains(&order.for_s) {
            return Err(format!("a flow takes from 1 to {LONGEST_S} s"));
        }
        if order.from == order.to {
            return Err("a flow leads from one node to another".to_owned());
        }
        let mut all = lock(&self.all);
        if all.flows.iter().filter(|flow| !flow.now.ended).count() >= FLOWS {
            return Err(format!("{FLOWS} flows run, which is as many as may"));
        }
        let port = PORTS + all.latest % 1_000;
        let mut children = Vec::new();
        for (node, words) in commands(order, port) {
            // Errors of the tool arrive in the same stream as its output.
            let child = Command::new("sh")
                .args(["-c", "exec \"$@\" 2>&1", "sh"])
                .arg(program)
                .args(["exec", lab, node, "--"])
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| error.to_string())?;
            children.push(child);
        }
        let said = children.last_mut().and_then(|tool| tool.stdout.take());
        all.latest += 1;
        let now = FlowNow {
            id: all.latest,
            tool: order.tool,
            from: order.from.clone(),
            to: order.to.clone(),
            samples: Vec::new(),
            words: Vec::new(),
            ended: false,
        };
        let (id, tool) = (now.id, now.tool);
        if all.flows.len() >= KEPT
            && let Some(old) = all.flows.iter().position(|flow| flow.now.ended)
        {
            all.flows.remove(old);
        }
        all.flows.push(Flow { now, children });
        drop(all);
        let all = Arc::downgrade(&self.all);
        let listen = move || listen(&all, id, tool, said);
        std::thread::Builder::new()
            .name("web-flow".to_owned())
            .spawn(listen)
            .map_err(|error| error.to_string())?;
        Ok(id)
    }
}

/// Returns the commands with their nodes, the tool last.
fn commands(order: &FlowOrder, port: u32) -> Vec<(&str, Vec<String>)> {
    let (from, to) = (order.from.as_str(), order.to.as_str());
    let words = |text: &[&str]| text.iter().map(|&word| word.to_owned()).collect();
    match order.tool {
        Tool::Ping => {
            let pings = (2 * order.for_s).to_string();
            let ping = ["ping", "-n", "-O", "-i", "0.5", "-c", &pings, to];
            vec![(from, words(&ping))]
        }
        Tool::Tcp => {
            let (port, seconds) = (port.to_string(), order.for_s.to_string());
            // `timeout` hands a signal on to all that it runs. The server ends with its one client, or when that never comes.
            let most = (order.for_s + 20).to_string();
            let server = ["timeout", &most, "iperf3", "-s", "-1", "-p", &port];
            // The other end takes a moment to listen.
            let again = "for i in 1 2 3 4 5; do iperf3 --forceflush -f m -i 0.5 -c \"$1\" -p \"$2\" -t \"$3\" && exit; sleep 0.5; done; exit 1";
            let client = [
                "timeout", &most, "sh", "-c", again, "sh", to, &port, &seconds,
            ];
            vec![(to, words(&server)), (from, words(&client))]
        }
    }
}

fn listen(all: &Weak<Mutex<All>>, id: u32, tool: Tool, said: Option<ChildStdout>) {
    for line in said
        .into_iter()
        .flat_map(|said| BufReader::new(said).lines())
        .map_while(Result::ok)
    {
        let Some(all) = all.upgrade() else { return };
        hear(&mut lock(&all), id, tool, &line);
    }
    let Some(all) = all.upgrade() else { return };
    let mut all = lock(&all);
    if let Some(flow) = all.flows.iter_mut().find(|flow| flow.now.id == id) {
        flow.now.ended = true;
    }
}

/// Ports of transfers are from here on.
const PORTS: u32 = 47_000;

fn hear(all: &mut All, id: u32, tool: Tool, line: &str) {
    let Some(flow) = all.flows.iter_mut().find(|flow| flow.now.id == id) else {
        return;
    };
    match sample(tool, line) {
        Some(sample) if flow.now.samples.len() < SAMPLES => flow.now.samples.push(sample),
        Some(_) => {}
        None if flow.now.words.len() < WORDS && !line.trim().is_empty() => {
            flow.now.words.push(line.chars().take(200).collect());
        }
        None => {}
    }
}

/// The number in a line of the tool: a round trip in ms, or Mbit/s of half a second.
fn sample(tool: Tool, line: &str) -> Option<f64> {
    match tool {
        Tool::Ping => line.split_once("time=")?.1.split(' ').next()?.parse().ok(),
        Tool::Tcp => {
            let sums = ["sender", "receiver"];
            if sums.iter().any(|end| line.trim_end().ends_with(end)) {
                return None;
            }
            let before = line.split_once("Mbits/sec")?.0;
            before.split_whitespace().next_back()?.parse().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_of_what_tools_print() {
        let ping = "64 bytes from 10.0.0.9: icmp_seq=3 ttl=60 time=83.4 ms";
        assert_eq!(sample(Tool::Ping, ping), Some(83.4));
        assert_eq!(sample(Tool::Ping, "no answer yet for icmp_seq=4"), None);
        let iperf = "[  5]   0.50-1.00   sec  2.75 MBytes  46.1 Mbits/sec    0    512 KBytes";
        assert_eq!(sample(Tool::Tcp, iperf), Some(46.1));
        let sum = "[  5]   0.00-10.00  sec  55.0 MBytes  46.1 Mbits/sec    3             sender";
        assert_eq!(sample(Tool::Tcp, sum), None);
    }

    #[test]
    fn what_is_too_much_is_refused_before_anything_starts() {
        let order = FlowOrder {
            tool: Tool::Ping,
            from: "a".to_owned(),
            to: "b".to_owned(),
            for_s: 601,
        };
        let flows = Flows::new(Some("/nonexistent".into()));
        assert!(flows.start("lab", &order).unwrap_err().contains("600 s"));
        let same = FlowOrder {
            to: "a".to_owned(),
            for_s: 5,
            ..order.clone()
        };
        assert!(flows.start("lab", &same).unwrap_err().contains("another"));
        let order = FlowOrder { for_s: 5, ..order };
        assert!(Flows::new(None).start("lab", &order).is_err());
        assert_eq!(flows.views(), []);
        // The error that keeps its tool from running is shown.
        flows.start("lab", &order).unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(240);
        while !flows.views()[0].ended {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let words = flows.views()[0].words.join(" ");
        assert!(words.contains("nonexistent"), "{words}");
    }
}
