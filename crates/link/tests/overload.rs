//! A host that is given more than it can serve: what it lets go, and where.

use constel_link::{
    Delivery, DropCause, EdgeChange, EdgeTable, EdgeUpdate, Frames, Impairment, LatenessLimits,
    Nanos, PortId, mac_of,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const PATIENCE: LatenessLimits = LatenessLimits {
    new_ns: 10 * MS,
    in_flight_ns: 50 * MS,
    lasting_ns: 50 * MS,
};
/// The time that the host takes to send a frame.
const COST_NS: u64 = 5_000;

/// A frame knows whether it has come over an edge before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    new: bool,
}

#[derive(Default)]
struct Host {
    let_go: Vec<Frame>,
}

impl Frames<Frame> for Host {
    fn duplicate(&mut self, frame: &Frame) -> Option<Frame> {
        Some(*frame)
    }
    fn flip_bit(&mut self, _: &mut Frame, _: u64) {}
    fn discard(&mut self, frame: Frame, cause: DropCause) {
        assert_eq!(cause, DropCause::Overload);
        self.let_go.push(frame);
    }
    fn is_new(&self, frame: &Frame) -> bool {
        frame.new
    }
}

/// Frames that enter the row of nodes at a hop, at a rate per second, and leave it at its end.
struct Flow {
    enters_at: u32,
    fps: u64,
}

/// The result.
#[derive(Debug, Default)]
struct Outcome {
    delivered_fps: Vec<f64>,
    /// Let go on each hop.
    let_go: Vec<u64>,
    let_go_under_way: usize,
    /// Latest that a frame left a hop, without the first half second.
    latest_ns: Nanos,
    held: usize,
}

/// Hop `h` goes from port `2h` to `2h + 1`; the node there passes frames on to port `2h + 2`. A flow that enters later
/// has a port and a hop of its own before it, as a station of its own has.
struct Row {
    table: EdgeTable<Frame>,
    hops: u32,
    host: Host,
}

impl Row {
    fn new(hops: u32, flows: &[Flow], delay_ns: u64, patience: Option<LatenessLimits>) -> Row {
        let ports = 2 * hops + 2 * flows.len() as u32;
        let mut table = EdgeTable::new(ports, 1);
        table.set_patience(patience);
        let mut host = Host::default();
        let changes = (0..ports / 2).map(|hop| EdgeChange::Set {
            from: PortId(2 * hop),
            to: PortId(2 * hop + 1),
            impairment: Impairment::delay_only(delay_ns),
        });
        let update = EdgeUpdate {
            changes: changes.collect(),
        };
        let update = update.check(ports).unwrap();
        table.apply(0, &update, &mut host).unwrap();
        Row { table, hops, host }
    }

    fn arrive(&mut self, now: Nanos, hop: u32, new: bool) {
        let (from, to) = (PortId(2 * hop), PortId(2 * hop + 1));
        let frame = Frame { new };
        self.table
            .arrive(now, from, mac_of(to), 1400, frame, &mut self.host);
    }

    /// The hop that comes behind this one; `None` where the frame has arrived.
    fn next(&self, hop: u32, flows: &[Flow]) -> Option<u32> {
        let next = match hop.checked_sub(self.hops) {
            Some(flow) => flows[flow as usize].enters_at,
            None => hop + 1,
        };
        (next < self.hops).then_some(next)
    }
}

fn run(hops: u32, flows: &[Flow], patience: Option<LatenessLimits>) -> Outcome {
    let mut row = Row::new(hops, flows, MS, patience);
    let mut next: Vec<Nanos> = flows.iter().map(|_| 0).collect();
    let mut delivered = vec![0u64; flows.len()];
    let mut out = Outcome::default();
    let (mut now, end) = (0, 3 * SECOND);
    while now < end {
        for (n, flow) in flows.iter().enumerate() {
            while next[n] <= now {
                row.arrive(next[n], hops + n as u32, true);
                next[n] += SECOND / flow.fps;
            }
        }
        let Some(d) = row.table.pop_due_fairly(now, &mut row.host) else {
            now += 1000;
            continue;
        };
        now += COST_NS;
        let Delivery { from, due_ns, .. } = d;
        if now > SECOND / 2 {
            out.latest_ns = out.latest_ns.max(now - due_ns);
        }
        match row.next(from.0 / 2, flows) {
            Some(hop) => row.arrive(now, hop, false),
            // Frames of all flows count together: only runs with one flow use the figure.
            None => delivered[0] += 1,
        }
    }
    out.delivered_fps = delivered.iter().map(|&n| n as f64 / 3.0).collect();
    let lost = |hop: u32| {
        let edge = row
            .table
            .edge_stats(PortId(2 * hop), PortId(2 * hop + 1))
            .unwrap();
        edge.counters.dropped_overload
    };
    out.let_go = (0..hops + flows.len() as u32).map(lost).collect();
    out.let_go_under_way = row.host.let_go.iter().filter(|f| !f.new).count();
    let totals = row.table.totals();
    let c = totals.counters;
    assert_eq!(c.offered, c.delivered + c.dropped() + totals.held as u64);
    assert_eq!(c.dropped(), row.host.let_go.len() as u64);
    out.held = totals.held;
    out
}

/// The rate that the host can deliver over a number of hops and one more.
fn capacity_fps(hops: u32) -> f64 {
    1e9 / (COST_NS * u64::from(hops + 1)) as f64
}

#[test]
fn below_its_capacity_a_host_lets_nothing_go() {
    let fps = (capacity_fps(19) * 0.9) as u64;
    let flow = [Flow { enters_at: 0, fps }];
    let out = run(19, &flow, Some(PATIENCE));
    assert!(out.delivered_fps[0] > 0.98 * fps as f64, "{out:?}");
    assert_eq!(out.let_go.iter().sum::<u64>(), 0);
    assert!(out.latest_ns < MS, "{out:?}");
}

#[test]
fn above_it_delivers_as_much_and_lets_go_before_it_has_worked() {
    let capacity = capacity_fps(19);
    for times in [1.5, 4.0, 20.0] {
        let fps = (capacity * times) as u64;
        let flow = [Flow { enters_at: 0, fps }];
        let out = run(19, &flow, Some(PATIENCE));
        assert!(out.delivered_fps[0] > 0.96 * capacity, "{times}: {out:?}");
        assert!(out.latest_ns < 12 * MS, "{times}: {out:?}");
        // The flow's own first hop is the last of the list.
        let first = out.let_go[19];
        assert!(first > 0 && out.let_go_under_way == 0, "{times}: {out:?}");
        assert_eq!(out.let_go.iter().sum::<u64>(), first, "nowhere else");
        // Without patience the frames wait for seconds.
        let before = run(19, &flow, None);
        assert!(before.latest_ns > 500 * MS, "{times}: {before:?}");
    }
}

#[test]
fn flows_that_meet_on_the_way_are_let_go_where_they_enter() {
    // Three floods enter a row one after the other, and a quiet one at its end.
    let flood = |enters_at| Flow {
        enters_at,
        fps: 60_000,
    };
    let flows = [
        flood(0),
        flood(3),
        flood(6),
        Flow {
            enters_at: 9,
            fps: 500,
        },
    ];
    let out = run(10, &flows, Some(PATIENCE));
    assert!(out.let_go[10..13].iter().all(|&n| n > 1000), "{out:?}");
    assert_eq!(out.let_go[..10].iter().sum::<u64>(), 0, "{out:?}");
    assert_eq!((out.let_go[13], out.let_go_under_way), (0, 0), "{out:?}");
    assert!(out.latest_ns < 12 * MS, "{out:?}");
}

#[test]
fn a_host_that_stood_still_catches_up_and_lets_nothing_go() {
    let flow = [Flow {
        enters_at: 0,
        fps: 10_000,
    }];
    let mut row = Row::new(1, &flow, MS, Some(PATIENCE));
    let mut now = 0;
    for n in 0..20_000u64 {
        let at = n * 100_000;
        row.arrive(at, 0, true);
        // Away for 40 ms in each half second.
        let away = at % (500 * MS) < 40 * MS;
        if !away {
            now = now.max(at);
            while now < at + 100_000 && row.table.pop_due_fairly(now, &mut row.host).is_some() {
                now += COST_NS;
            }
        }
    }
    assert_eq!(row.host.let_go.len(), 0);
    assert!(row.table.totals().counters.delivered > 18_000);
}

#[test]
fn what_is_under_way_is_let_go_in_the_end() {
    // A loop of four hops: frames never leave it. The host cannot serve what goes round, so it must not wait for ever. A
    // fifth hop has a frame now and then.
    let quiet = [Flow {
        enters_at: 4,
        fps: 100,
    }];
    let mut row = Row::new(4, &quiet, MS, Some(PATIENCE));
    for n in 0..8_000 {
        row.arrive(n, (n % 4) as u32, false);
    }
    let (mut now, mut next, mut latest, mut latest_quiet) = (0, 0, 0, 0);
    while now < 2 * SECOND {
        if next <= now {
            row.arrive(next, 4, true);
            next += 10 * MS;
        }
        let Some(d) = row.table.pop_due_fairly(now, &mut row.host) else {
            now += 1000;
            continue;
        };
        now += 5 * COST_NS;
        if d.from == PortId(8) {
            latest_quiet = latest_quiet.max(now - d.due_ns);
            continue;
        }
        if now > SECOND {
            latest = latest.max(now - d.due_ns);
        }
        row.arrive(now, (d.from.0 / 2 + 1) % 4, false);
    }
    assert!(row.host.let_go.iter().all(|frame| !frame.new));
    assert!(!row.host.let_go.is_empty());
    assert!(latest < 60 * MS, "{latest}");
    assert!(latest_quiet < MS, "{latest_quiet}");
}
