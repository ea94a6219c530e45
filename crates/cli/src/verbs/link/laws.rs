//! Laws on the command line, and recordings read from files.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use constel_link::{
    CodelParams, Discipline, Jitter, JitterLaw, JitterOrder, LossLaw, PieParams, RateLaw,
    RedParams, trace,
};
use constel_units::{DataRate, DataSize, Ratio, TimeSpan};

use crate::args::{LinkSet, OrderName};
use crate::exit::Failure;

fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

/// The values of a law, separated by commas.
struct Values<'a> {
    flag: &'a str,
    form: &'a str,
    rest: std::str::Split<'a, char>,
}

impl<'a> Values<'a> {
    fn new(flag: &'a str, form: &'a str, text: &'a str) -> Values<'a> {
        let rest = text.split(',');
        Values { flag, form, rest }
    }

    fn optional<T: FromStr<Err: Display>>(&mut self) -> Result<Option<T>, Failure> {
        let Some(word) = self.rest.next().map(str::trim).filter(|w| !w.is_empty()) else {
            return Ok(None);
        };
        let bad = |e: T::Err| usage(format!("{}: `{word}`: {e}", self.flag));
        word.parse().map(Some).map_err(bad)
    }

    fn next<T: FromStr<Err: Display>>(&mut self) -> Result<T, Failure> {
        let (flag, form) = (self.flag, self.form);
        let missing = || usage(format!("{flag}: a value is missing; it is written {form}"));
        self.optional()?.ok_or_else(missing)
    }

    fn end(mut self) -> Result<(), Failure> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => Err(usage(format!(
                "{}: too many values; it is written {}",
                self.flag, self.form
            ))),
        }
    }
}

pub(super) fn ns(span: TimeSpan) -> Result<u64, Failure> {
    u64::try_from(span.ns()).map_err(|_| usage(format!("{span}: a time here is not negative")))
}

fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Vec<trace::TraceError>>,
) -> Result<T, Failure> {
    let shown = path.display();
    let text = constel_units::files::read_text(path).map_err(|e| usage(format!("{shown}: {e}")))?;
    parse(&text).map_err(|errors| {
        let lines = errors
            .iter()
            .map(|e| format!("{shown}:{}: {}", e.line, e.message));
        usage(lines.collect::<Vec<_>>().join("\n"))
    })
}

/// Parses `--rate-law`.
pub(super) fn rate(set: &LinkSet) -> Result<Option<RateLaw>, Failure> {
    let Some(text) = &set.rate_law else {
        return Ok(None);
    };
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let values = |form| Values::new("--rate-law", form, rest);
    let law = match kind {
        "csv" => read(Path::new(rest), |text| trace::rate_csv(text, true))?,
        "mahimahi" => read(Path::new(rest), trace::mahimahi)?,
        "square" => {
            let mut v = values("square:HIGH,LOW,HIGH_FOR,LOW_FOR");
            let law = RateLaw::Square {
                high_bps: v.next::<DataRate>()?.bps(),
                low_bps: v.next::<DataRate>()?.bps(),
                high_ns: ns(v.next()?)?,
                low_ns: ns(v.next()?)?,
                origin_ns: 0,
            };
            v.end()?;
            law
        }
        "sine" => {
            let mut v = values("sine:MEAN,AMPLITUDE,PERIOD");
            let law = RateLaw::Sine {
                mean_bps: v.next::<DataRate>()?.bps(),
                amplitude_bps: v.next::<DataRate>()?.bps(),
                period_ns: ns(v.next()?)?,
                origin_ns: 0,
            };
            v.end()?;
            law
        }
        "v-curve" => {
            let mut v = values("v-curve:HIGH,LOW,RAMP,EVERY,AT");
            let law = RateLaw::VCurve {
                high_bps: v.next::<DataRate>()?.bps(),
                low_bps: v.next::<DataRate>()?.bps(),
                half_width_ns: ns(v.next()?)?,
                period_ns: ns(v.next()?)?,
                origin_ns: v.optional()?.map_or(Ok(0), ns)?,
            };
            v.end()?;
            law
        }
        _ => {
            let all = "square, sine, v-curve, csv and mahimahi";
            return Err(usage(format!("--rate-law {text}: the laws are {all}")));
        }
    };
    Ok(Some(law))
}

/// Parses `--aqm` and `--ecn`.
pub(super) fn discipline(set: &LinkSet) -> Result<Option<Discipline>, Failure> {
    let Some(text) = &set.aqm else {
        return Ok(None);
    };
    let ecn = set.ecn;
    let codel = CodelParams {
        ecn,
        ..CodelParams::default()
    };
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let law = match kind {
        "drop-tail" if ecn => return Err(usage("--ecn: drop-tail does not mark")),
        "drop-tail" => Discipline::DropTail,
        "codel" => Discipline::Codel(codel),
        "fq-codel" => Discipline::FqCodel {
            codel,
            flows: 1024,
            quantum_bytes: 1514,
        },
        "pie" => Discipline::Pie(PieParams {
            ecn,
            ..PieParams::default()
        }),
        "red" => {
            let mut v = Values::new("--aqm", "red:MIN,MAX,PROBABILITY", rest);
            let red = RedParams {
                min_bytes: v.next::<DataSize>()?.bytes(),
                max_bytes: v.next::<DataSize>()?.bytes(),
                max_ratio: v.optional::<Ratio>()?.map_or(0.1, Ratio::get),
                weight: 0.002,
                gentle: true,
                ecn,
                frame_bytes: 1000,
            };
            v.end()?;
            return Ok(Some(Discipline::Red(red)));
        }
        "drd" => {
            let mut v = Values::new("--aqm", "drd:MIN,MAX", rest);
            let drd = Discipline::Drd {
                min_frames: v.next()?,
                max_frames: v.next()?,
                ecn,
            };
            v.end()?;
            return Ok(Some(drd));
        }
        "ce-threshold" => {
            let mut v = Values::new("--aqm", "ce-threshold:TIME", rest);
            let above_ns = ns(v.next()?)?;
            v.end()?;
            return Ok(Some(Discipline::CeThreshold { above_ns }));
        }
        _ => {
            let all = "drop-tail, codel, fq-codel, pie, red, drd and ce-threshold";
            return Err(usage(format!("--aqm {text}: the disciplines are {all}")));
        }
    };
    if rest.is_empty() {
        Ok(Some(law))
    } else {
        Err(usage(format!("--aqm {kind} has no values")))
    }
}

/// Parses `--four-state`, `--periodic`, `--loss-trace`.
pub(super) fn loss(set: &LinkSet) -> Result<Option<LossLaw>, Failure> {
    if let Some(&[p13, p31, p32, p23, p14]) = set.four_state.as_deref() {
        let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(Ratio::get);
        return Ok(Some(LossLaw::FourState {
            p13,
            p31,
            p32,
            p23,
            p14,
        }));
    }
    if let Some(&[every, burst]) = set.periodic.as_deref() {
        return Ok(Some(LossLaw::Periodic { every, burst }));
    }
    match &set.loss_trace {
        Some(path) => Ok(Some(LossLaw::Trace {
            lost: read(path, trace::losses)?,
        })),
        None => Ok(None),
    }
}

/// Parses `--delay-trace`, as jitter on a delay of 0.
pub(super) fn delays(set: &LinkSet) -> Result<Option<Jitter>, Failure> {
    recording(set.delay_trace.as_deref(), set.trace_interval)
}

/// Parses `--jitter-trace` and `--jitter-quantiles`.
pub(super) fn jitter(set: &LinkSet) -> Result<Option<Jitter>, Failure> {
    let Some(quantiles) = &set.jitter_quantiles else {
        return recording(set.jitter_trace.as_deref(), set.trace_interval);
    };
    let law = JitterLaw::Table {
        quantiles_ns: quantiles.iter().map(|span| span.ns()).collect(),
    };
    with_memory(law, set).map(Some)
}

/// Returns a law of jitter with its correlation and order.
pub(super) fn with_memory(law: JitterLaw, set: &LinkSet) -> Result<Jitter, Failure> {
    Ok(Jitter {
        law,
        half_life_ns: set.jitter_half_life.map_or(Ok(0), ns)?,
        order: match set.jitter_order {
            OrderName::Hold => JitterOrder::Hold,
            OrderName::Overtake => JitterOrder::Overtake,
            OrderName::Smooth => JitterOrder::Smooth,
        },
    })
}

fn recording(path: Option<&Path>, interval: Option<TimeSpan>) -> Result<Option<Jitter>, Failure> {
    let (Some(path), Some(interval)) = (path, interval) else {
        return Ok(None);
    };
    let law = JitterLaw::Trace {
        interval_ns: ns(interval)?,
        extra_ns: read(path, trace::delays_ms)?,
        origin_ns: 0,
    };
    Ok(Some(Jitter::of(law)))
}
