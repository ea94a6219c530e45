//! Queue disciplines against a second implementation, event by event: every departure, drop and
//! mark must be the same to the nanosecond, whatever the moments at which the lazy edge is looked at.
//!
//! The reference is written after the papers' pseudo-code with plain lists and a plain event loop; it
//! shares no code with the crate, not even the generator.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use constel_link::packet::Traits;
use constel_link::{
    CodelParams, Discipline, DropCause, Edge, Effects, Impairment, PieParams, QueueLimit, RedParams,
};
use proptest::prelude::*;

/// One byte takes a microsecond.
const RATE: u64 = 8_000_000;
const BYTE_NS: u64 = 1_000;
const MS: u64 = 1_000_000;
const SEED: u64 = 11;
/// No arrival is at 0, which the pseudo-code takes for "never".
const START: u64 = 1_000 * MS;

/// xoshiro256** seeded by splitmix64, as the crate documents: edge 0 -> 1, life 0, stream 6.
struct Rng([u64; 4]);

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    fn new() -> Rng {
        let mut state = SEED;
        let mut mix = splitmix(&mut state);
        for word in [1, 0] {
            state = mix ^ word;
            mix = splitmix(&mut state);
        }
        let edge: [u64; 4] = std::array::from_fn(|_| splitmix(&mut state));
        let mut state = edge[0] ^ 6u64.wrapping_mul(0xd134_2543_de82_ef95);
        let mut mix = splitmix(&mut state);
        for word in &edge[1..] {
            state = mix ^ word;
            mix = splitmix(&mut state);
        }
        Rng(std::array::from_fn(|_| splitmix(&mut state)))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    fn chance(&mut self, p: f64) -> bool {
        let draw = self.next();
        p >= 1.0 || draw < (p * 2f64.powi(64)) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    id: u32,
    at: u64,
    len: u64,
    flow: u64,
    ect: bool,
}

/// CoDel's variables, as RFC 8289 names them.
#[derive(Default)]
struct CodelVars {
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    maxpacket: u64,
}

#[derive(Default)]
struct Sub {
    queue: VecDeque<(Frame, bool)>,
    codel: CodelVars,
    deficit: i64,
    active: bool,
}

/// PIE's variables, as RFC 8033 names them.
#[derive(Default)]
struct PieVars {
    drop_prob: f64,
    accu_prob: f64,
    qdelay: u64,
    qdelay_old: u64,
    burst_allowance: i64,
    next_update: u64,
}

struct Reference {
    discipline: Discipline,
    limit: u64,
    rng: Rng,
    perturbation: u64,
    /// Single-queue disciplines use the first.
    subs: Vec<Sub>,
    new: Vec<usize>,
    old: Vec<usize>,
    server: Option<(u64, Frame, bool)>,
    departed: Vec<(u64, u32, bool)>,
    dropped: Vec<(u32, DropCause)>,
    red_avg: f64,
    red_count: i64,
    red_idle: Option<u64>,
    pie: PieVars,
}

fn bytes(queue: &VecDeque<(Frame, bool)>) -> u64 {
    queue.iter().map(|(f, _)| f.len).sum()
}

impl Reference {
    fn new(discipline: Discipline, limit: u64) -> Reference {
        let mut rng = Rng::new();
        let flows = match discipline {
            Discipline::FqCodel { flows, .. } => flows as usize,
            _ => 1,
        };
        let perturbation = if flows > 1 { rng.next() } else { 0 };
        let mut pie = PieVars::default();
        if let Discipline::Pie(p) = discipline {
            pie.burst_allowance = p.burst_ns as i64;
            pie.next_update = p.update_ns;
        }
        Reference {
            discipline,
            limit,
            rng,
            perturbation,
            subs: (0..flows).map(|_| Sub::default()).collect(),
            new: vec![],
            old: vec![],
            server: None,
            departed: vec![],
            dropped: vec![],
            red_avg: 0.0,
            red_count: -1,
            red_idle: None,
            pie,
        }
    }

    fn waiting(&self) -> u64 {
        self.subs.iter().map(|s| bytes(&s.queue)).sum()
    }

    /// Everything that happens up to `t`, in order; services before polls of the same instant.
    fn run_to(&mut self, t: u64) {
        loop {
            let service = self.server.map_or(u64::MAX, |s| s.0);
            let look = match self.discipline {
                Discipline::Pie(_) => self.pie.next_update,
                _ => u64::MAX,
            };
            if service.min(look) > t {
                return;
            }
            if service <= look {
                let (end, frame, ce) = self.server.take().unwrap();
                self.departed.push((end, frame.id, ce));
                self.serve(end);
            } else {
                self.pie_update();
            }
        }
    }

    fn serve(&mut self, now: u64) {
        let next = self.dequeue(now);
        self.server = next.map(|(f, ce)| (now + f.len * BYTE_NS, f, ce));
    }

    fn arrive(&mut self, frame: Frame) {
        self.run_to(frame.at);
        let idle = self.server.is_none();
        let room = idle || self.waiting() + frame.len <= self.limit;
        // 0: in, 1: marked, 2: dropped by the discipline.
        let verdict = match self.discipline {
            Discipline::Red(p) => self.red(&p, frame.at),
            Discipline::Pie(p) => self.pie_arrival(&p, room),
            Discipline::Drd {
                min_frames,
                max_frames,
                ecn,
            } => {
                let n = self.subs[0].queue.len() as f64;
                let ramp = (n - min_frames as f64) / (max_frames as f64 - min_frames as f64);
                let p = 0.95 * ramp.clamp(0.0, 1.0);
                let hit = n > min_frames as f64 && self.rng.chance(p);
                match hit {
                    false => 0,
                    true if ecn && n < max_frames as f64 => 1,
                    true => 2,
                }
            }
            // The frames ahead of it are known already.
            Discipline::CeThreshold { above_ns } => {
                let in_service = self.server.map_or(0, |s| s.0 - frame.at);
                let waits = in_service + self.waiting() * BYTE_NS;
                u8::from(frame.ect && waits > above_ns)
            }
            _ => 0,
        };
        if verdict == 2 || (verdict == 1 && !frame.ect) {
            return self.dropped.push((frame.id, DropCause::Aqm));
        }
        let fq = matches!(self.discipline, Discipline::FqCodel { .. });
        if !fq && !room {
            return self.dropped.push((frame.id, DropCause::Queue));
        }
        let sub = if fq {
            let mixed = u128::from(frame.flow ^ self.perturbation) * 0x9e37_79b9_7f4a_7c15u128;
            let hash = (mixed >> 64) as u64 ^ mixed as u64;
            (hash % self.subs.len() as u64) as usize
        } else {
            0
        };
        self.subs[sub].queue.push_back((frame, verdict == 1));
        if let Discipline::FqCodel { quantum_bytes, .. } = self.discipline {
            if !self.subs[sub].active {
                self.subs[sub].active = true;
                self.subs[sub].deficit = i64::from(quantum_bytes);
                self.new.push(sub);
            }
            while !idle && self.waiting() > self.limit {
                // The first of the longest.
                let longest = (0..self.subs.len())
                    .rev()
                    .max_by_key(|&i| bytes(&self.subs[i].queue))
                    .unwrap();
                let half = (self.subs[longest].queue.len() / 2).clamp(1, 64);
                for (f, _) in self.subs[longest].queue.drain(..half) {
                    self.dropped.push((f.id, DropCause::Queue));
                }
            }
        }
        if idle {
            self.serve(frame.at);
        }
    }

    fn dequeue(&mut self, now: u64) -> Option<(Frame, bool)> {
        match self.discipline {
            Discipline::Codel(p) => codel(&mut self.subs[0], &p, now, &mut self.dropped),
            Discipline::FqCodel {
                codel: p,
                quantum_bytes,
                ..
            } => loop {
                let (from_new, sub) = match (self.new.first(), self.old.first()) {
                    (Some(&s), _) => (true, s),
                    (None, Some(&s)) => (false, s),
                    (None, None) => return None,
                };
                let list = if from_new {
                    &mut self.new
                } else {
                    &mut self.old
                };
                if self.subs[sub].deficit <= 0 {
                    self.subs[sub].deficit += i64::from(quantum_bytes);
                    list.remove(0);
                    self.old.push(sub);
                    continue;
                }
                match codel(&mut self.subs[sub], &p, now, &mut self.dropped) {
                    Some(found) => {
                        self.subs[sub].deficit -= found.0.len as i64;
                        return Some(found);
                    }
                    None => {
                        list.remove(0);
                        if from_new {
                            self.old.push(sub);
                        } else {
                            self.subs[sub].active = false;
                        }
                    }
                }
            },
            _ => {
                let found = self.subs[0].queue.pop_front();
                let empty = self.subs[0].queue.is_empty();
                let waited = found.map_or(0, |(f, _)| now - f.at);
                self.pie.qdelay = if empty { 0 } else { waited };
                if found.is_none() {
                    self.red_idle = Some(now);
                }
                found
            }
        }
    }

    fn red(&mut self, p: &RedParams, now: u64) -> u8 {
        let q = bytes(&self.subs[0].queue) as f64;
        match self.red_idle.take() {
            Some(since) => {
                let m = (now - since) as f64 / (f64::from(p.frame_bytes) * 8e9 / RATE as f64);
                self.red_avg *= (1.0 - p.weight).powf(m);
            }
            None => self.red_avg += p.weight * (q - self.red_avg),
        }
        let (min, max, avg) = (p.min_bytes as f64, p.max_bytes as f64, self.red_avg);
        if avg < min {
            self.red_count = -1;
            return 0;
        }
        let pb = if avg < max {
            p.max_ratio * (avg - min) / (max - min)
        } else if p.gentle && avg < 2.0 * max {
            p.max_ratio + (1.0 - p.max_ratio) * (avg - max) / max
        } else {
            self.red_count = 0;
            return 2;
        };
        self.red_count += 1;
        let rest = 1.0 - self.red_count as f64 * pb;
        if rest <= pb || self.rng.chance(pb / rest) {
            self.red_count = 0;
            return if p.ecn { 1 } else { 2 };
        }
        0
    }

    fn pie_arrival(&mut self, p: &PieParams, room: bool) -> u8 {
        let half = p.target_ns / 2;
        let v = &mut self.pie;
        if !room {
            v.accu_prob = 0.0;
            return 0;
        }
        let mut drop = false;
        if v.burst_allowance == 0
            && !(v.qdelay_old < half && v.drop_prob < 0.2)
            && bytes(&self.subs[0].queue) > 3000
        {
            v.accu_prob = if v.drop_prob == 0.0 {
                0.0
            } else {
                v.accu_prob + v.drop_prob
            };
            drop = v.accu_prob >= 0.85 && (v.accu_prob >= 8.5 || self.rng.chance(v.drop_prob));
        }
        if drop {
            v.accu_prob = 0.0;
            return if p.ecn && v.drop_prob < 0.1 { 1 } else { 2 };
        }
        if v.drop_prob == 0.0 && v.qdelay < half && v.qdelay_old < half {
            v.burst_allowance = p.burst_ns as i64;
        }
        0
    }

    fn pie_update(&mut self) {
        let Discipline::Pie(p) = self.discipline else {
            return;
        };
        let v = &mut self.pie;
        let s = |ns: u64| ns as f64 / 1e9;
        let mut step =
            0.125 * (s(v.qdelay) - s(p.target_ns)) + 1.25 * (s(v.qdelay) - s(v.qdelay_old));
        let scale = [
            (1e-6, 2048.0),
            (1e-5, 512.0),
            (1e-4, 128.0),
            (1e-3, 32.0),
            (0.01, 8.0),
            (0.1, 2.0),
        ];
        step /= scale
            .iter()
            .find(|s| v.drop_prob < s.0)
            .map_or(1.0, |s| s.1);
        if v.drop_prob >= 0.1 && step > 0.02 {
            step = 0.02;
        }
        v.drop_prob += step;
        if v.qdelay < p.target_ns / 2 && v.qdelay_old < p.target_ns / 2 {
            v.drop_prob *= 0.98;
        }
        v.drop_prob = v.drop_prob.clamp(0.0, 1.0);
        v.burst_allowance = (v.burst_allowance - p.update_ns as i64).max(0);
        v.qdelay_old = v.qdelay;
        v.next_update += p.update_ns;
    }
}

/// RFC 8289 section 5.
fn codel(
    sub: &mut Sub,
    p: &CodelParams,
    now: u64,
    dropped: &mut Vec<(u32, DropCause)>,
) -> Option<(Frame, bool)> {
    fn dodequeue(sub: &mut Sub, p: &CodelParams, now: u64) -> (Option<(Frame, bool)>, bool) {
        let Some(found) = sub.queue.pop_front() else {
            sub.codel.first_above_time = 0;
            return (None, false);
        };
        let v = &mut sub.codel;
        v.maxpacket = v.maxpacket.max(found.0.len);
        let mut ok = false;
        if now - found.0.at < p.target_ns || bytes(&sub.queue) <= v.maxpacket {
            v.first_above_time = 0;
        } else if v.first_above_time == 0 {
            v.first_above_time = now + p.interval_ns;
            ok = p.interval_ns == 0;
        } else if now >= v.first_above_time {
            ok = true;
        }
        (Some(found), ok)
    }
    let law = |t: u64, count: u32| t + (p.interval_ns as f64 / f64::from(count).sqrt()) as u64;
    let (mut found, mut ok) = dodequeue(sub, p, now);
    if sub.codel.dropping {
        if !ok {
            sub.codel.dropping = false;
        }
        while now >= sub.codel.drop_next && sub.codel.dropping {
            let (frame, _) = found.unwrap();
            if p.ecn && frame.ect {
                sub.codel.count += 1;
                sub.codel.drop_next = law(sub.codel.drop_next, sub.codel.count);
                return Some((frame, true));
            }
            dropped.push((frame.id, DropCause::Aqm));
            (found, ok) = dodequeue(sub, p, now);
            if !ok {
                sub.codel.dropping = false;
            } else {
                sub.codel.count += 1;
                sub.codel.drop_next = law(sub.codel.drop_next, sub.codel.count);
            }
        }
    } else if ok {
        let (frame, _) = found.unwrap();
        if p.ecn && frame.ect {
            found = Some((frame, true));
        } else {
            dropped.push((frame.id, DropCause::Aqm));
            (found, _) = dodequeue(sub, p, now);
        }
        let v = &mut sub.codel;
        v.dropping = true;
        let delta = v.count.wrapping_sub(v.lastcount);
        v.count = 1;
        if delta > 1 && now.saturating_sub(v.drop_next) < 16 * p.interval_ns {
            v.count = delta;
        }
        v.drop_next = law(now, v.count);
        v.lastcount = v.count;
    }
    found
}

/// A frame to send: a gap in microseconds, a length, a flow, whether it can be marked, and whether
/// the edge is polled before.
type Send = (u64, u64, u64, bool, bool);

fn sends() -> impl Strategy<Value = Vec<Send>> {
    // Phases of overload and of rest, of some hundred frames each.
    let phase = (0u64..3, 20usize..200).prop_flat_map(|(load, n)| {
        let gap = [0..900u64, 300..1_800, 1_000..30_000][load as usize].clone();
        let send = (gap, 64u64..1_500, 0u64..6, any::<bool>(), any::<bool>());
        prop::collection::vec(send, n..=n)
    });
    prop::collection::vec(phase, 1..6).prop_map(|phases| phases.concat())
}

fn compare(discipline: Discipline, limit: u64, sends: &[Send]) -> Result<(), TestCaseError> {
    let impairment = Impairment {
        rate_bps: NonZeroU64::new(RATE),
        queue: QueueLimit { bytes: limit },
        ..Impairment::delay_only(0)
    };
    let mut edge: Edge<u32> = Edge::new(impairment, SEED, 0, 1, 0);
    let effects = Effects {
        discipline: Some(discipline),
        ..Effects::default()
    };
    edge.set_effects(0, Some(Arc::new(effects)), &mut |_, _| ());
    let mut reference = Reference::new(discipline, limit);
    let (mut got, mut dropped) = (Vec::new(), Vec::new());
    let mut now = START;
    for (id, &(gap_us, len, flow, ect, look)) in (0u32..).zip(sends) {
        let look_at = now + gap_us * 500;
        now += gap_us * 1_000;
        if look {
            while let Some(r) = edge.pop_due(look_at, &mut |f, cause| dropped.push((f, cause))) {
                got.push((r.due_ns, r.frame, r.marks.congestion));
            }
        }
        reference.arrive(Frame {
            id,
            at: now,
            len,
            flow,
            ect,
        });
        let traits = Traits {
            flow,
            ecn_capable: ect,
        };
        let result = edge.arrive_as(now, id, len as u32, traits, &mut |f, cause| {
            dropped.push((f, cause));
        });
        if let Err(refused) = result {
            dropped.push((refused.frame, refused.cause));
        }
        let c = edge.counters();
        prop_assert_eq!(c.offered, c.delivered + c.dropped() + edge.held() as u64);
    }
    reference.run_to(now + 100_000 * MS);
    while let Some(at) = edge.next_event() {
        while let Some(r) = edge.pop_due(at, &mut |f, cause| dropped.push((f, cause))) {
            got.push((r.due_ns, r.frame, r.marks.congestion));
        }
    }
    prop_assert_eq!(got, reference.departed);
    let sorted = |mut v: Vec<(u32, DropCause)>| {
        v.sort_unstable();
        v
    };
    prop_assert_eq!(sorted(dropped), sorted(reference.dropped));
    prop_assert_eq!(edge.held(), 0);
    Ok(())
}

fn codel_params(ecn: bool) -> CodelParams {
    CodelParams {
        target_ns: 2 * MS,
        interval_ns: 20 * MS,
        ecn,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn codel_is_the_rfc(sends in sends(), ecn in any::<bool>(), limit in 3_000u64..200_000) {
        compare(Discipline::Codel(codel_params(ecn)), limit, &sends)?;
    }

    #[test]
    fn fq_codel_is_the_rfc(
        sends in sends(), ecn in any::<bool>(), limit in 3_000u64..200_000,
        flows in 2u32..8, quantum_bytes in 300u32..3_000,
    ) {
        let discipline = Discipline::FqCodel { codel: codel_params(ecn), flows, quantum_bytes };
        compare(discipline, limit, &sends)?;
    }

    #[test]
    fn red_is_the_paper(
        sends in sends(), ecn in any::<bool>(), gentle in any::<bool>(), limit in 10_000u64..200_000,
        weight in 0.001..0.2f64, max_ratio in 0.02..1.0f64,
    ) {
        let params = RedParams {
            min_bytes: 5_000, max_bytes: 20_000, max_ratio, weight, gentle, ecn, frame_bytes: 700,
        };
        compare(Discipline::Red(params), limit, &sends)?;
    }

    #[test]
    fn pie_is_the_rfc(sends in sends(), ecn in any::<bool>(), limit in 10_000u64..200_000) {
        let params = PieParams { target_ns: 3 * MS, update_ns: 3 * MS, burst_ns: 9 * MS, ecn };
        compare(Discipline::Pie(params), limit, &sends)?;
    }

    #[test]
    fn drd_is_nist_nets(
        sends in sends(), ecn in any::<bool>(), min_frames in 0u64..20, more in 1u64..40,
        limit in 10_000u64..200_000,
    ) {
        let discipline = Discipline::Drd { min_frames, max_frames: min_frames + more, ecn };
        compare(discipline, limit, &sends)?;
    }

    #[test]
    fn a_threshold_marks_what_waits_longer(
        sends in sends(), above_us in 0u64..150_000, limit in 3_000u64..200_000,
    ) {
        compare(Discipline::CeThreshold { above_ns: above_us * 1_000 }, limit, &sends)?;
    }
}

/// A sender that fills any queue: frames of 1,250 bytes at 12 Mbit/s into 8 Mbit/s for 20 s.
/// Returns the delays of the frames that arrive in the last half, and the share that is lost.
fn flood(effects: Effects, queue_bytes: u64, ect: bool) -> (Vec<u64>, f64, u64) {
    let impairment = Impairment {
        rate_bps: NonZeroU64::new(RATE),
        queue: QueueLimit { bytes: queue_bytes },
        ..Impairment::delay_only(20 * MS)
    };
    let mut edge: Edge<u64> = Edge::new(impairment, SEED, 0, 1, 0);
    edge.set_effects(0, Some(Arc::new(effects)), &mut |_, _| ());
    let (gap, end) = (833_333, 20_000 * MS);
    let mut delays = Vec::new();
    let mut now = 0;
    while now < end {
        while let Some(r) = edge.pop_due(now, &mut |_, _| ()) {
            if r.due_ns > end / 2 {
                delays.push(r.due_ns - r.frame);
            }
        }
        let traits = Traits {
            flow: 1,
            ecn_capable: ect,
        };
        let _ = edge.arrive_as(now, now, 1_250, traits, &mut |_, _| ());
        now += gap;
    }
    let c = *edge.counters();
    (delays, c.dropped() as f64 / c.offered as f64, c.marked)
}

/// Base delay plus what waits, at the rate: a standing queue of B bytes costs B / rate, and the
/// frame itself its own time.
#[test]
fn a_standing_queue_costs_its_bytes_over_the_rate() {
    for queue_bytes in [12_500, 50_000, 250_000] {
        let (delays, lost, _) = flood(Effects::default(), queue_bytes, false);
        let full = 20 * MS + (queue_bytes + 1_250) * BYTE_NS;
        // The queue holds whole frames, and one of them is being served.
        let least = full - 2 * 1_250 * BYTE_NS;
        assert!(delays.len() > 7_000);
        let (first, last) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        println!("{queue_bytes} bytes: {first} to {last} ns for {least} to {full}, {lost:.3} lost");
        for delay in delays {
            assert!(
                (least..=full).contains(&delay),
                "{delay} not in {least}..={full}"
            );
        }
        assert!((lost - 1.0 / 3.0).abs() < 0.02, "{lost}");
    }
}

/// The purpose of disciplines, against a sender that does not react: with room for 2 s, the standing
/// queue of those that can stays far below, and marks take the place of drops while they may.
#[test]
fn disciplines_keep_the_standing_queue_short() {
    let mean = |delays: &[u64]| delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e6;
    let run = |discipline, ect| {
        let effects = Effects {
            discipline: Some(discipline),
            ..Effects::default()
        };
        let (delays, lost, marked) = flood(effects, 2_000_000, ect);
        println!(
            "{discipline:?}: {:.1} ms mean, {lost:.3} lost, {marked} marked",
            mean(&delays)
        );
        (delays, lost, marked)
    };
    let red = RedParams {
        min_bytes: 10_000,
        max_bytes: 50_000,
        max_ratio: 0.5,
        weight: 0.01,
        gentle: true,
        ecn: false,
        frame_bytes: 1_250,
    };
    // If a third of the frames must go, RED's average settles on its ramp at 1/3 (drops are
    // spread evenly, which makes the share 2p / (1 + p): p = 0.2), 26,000 bytes or 26 ms.
    let (delays, _, _) = run(Discipline::Red(red), false);
    assert!(
        (mean(&delays) - 20.0 - 26.0).abs() < 4.0,
        "{}",
        mean(&delays)
    );
    // DRD: 0.95 times the ramp from 0 to 57 frames is 1/3 at 20 frames of 1.25 ms.
    let drd = Discipline::Drd {
        min_frames: 0,
        max_frames: 57,
        ecn: false,
    };
    let (delays, _, _) = run(drd, false);
    assert!(
        (mean(&delays) - 20.0 - 25.0).abs() < 3.0,
        "{}",
        mean(&delays)
    );
    // PIE aims at 15 ms. The controller is made for senders that react: against this one it swings
    // around the target, and a queue cannot swing below 0.
    let (delays, _, marked) = run(Discipline::Pie(PieParams::default()), true);
    assert!(
        (7.0..30.0).contains(&(mean(&delays) - 20.0)),
        "{}",
        mean(&delays)
    );
    assert_eq!(marked, 0, "not asked for");
    // Half of the frames that RED would drop can be marked: they go out.
    let (_, lost, marked) = run(Discipline::Red(RedParams { ecn: true, ..red }), true);
    assert!(marked > 1_000, "{marked}");
    assert!(lost < 0.34, "{lost}");
}
