//! `link`: the effect of a kind of link, in the link plane's terms; recordings are read.

use constel_link::{
    Capabilities, CodelParams, Discipline, DriverKind, Effects, Jitter, JitterLaw, LossLaw,
    PieParams, RateLaw, RedParams, trace,
};
use constel_units::TimeSpan;

use super::inputs::Inputs;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::Link;
use crate::parse::{Document, Parsed};
use crate::raw::{
    Family, RawAqm, RawDelayTrace, RawJitter, RawJitterLaw, RawLink, RawLossLaw, RawRateLaw,
};
use crate::source::{Source, Span};
use crate::walk::Seg::{self, Key};

/// Returns the link under `path`; errors go to `errors`.
pub(super) fn link_of(
    parsed: &Parsed,
    path: &[Seg<'_>],
    raw: &RawLink,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Link {
    let driver = parsed.raw.links.driver.kind();
    let mut reader = LinkReader {
        parsed,
        driver,
        delay_key: "extra_delay",
        path,
        inputs,
        errors,
    };
    let effects = reader.effects(raw, raw.effects());
    reader.mtu(raw, &parsed.raw.routing.families);
    Link {
        rate: raw.rate,
        mtu: raw.mtu,
        queue: raw.queue,
        loss: raw.loss,
        extra_delay: raw.extra_delay,
        effects,
    }
}

/// Returns the effects of a path of a box, whose keys under `path` are those of a link except `delay`.
pub(super) fn path_effects(
    document: &Document,
    path: &[Seg<'_>],
    (raw, shared): (&RawLink, Effects),
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Effects {
    let mut reader = LinkReader {
        parsed: document,
        driver: Some(DriverKind::Relay),
        delay_key: "delay",
        path,
        inputs,
        errors,
    };
    reader.effects(raw, shared)
}

/// Whether jitter leaves something of the delay of the link under `path`: frames do not arrive before they were sent.
pub(super) fn check_jitter(
    document: &Document,
    path: &[Seg<'_>],
    (jitter, delay): (Option<&Jitter>, TimeSpan),
    errors: &mut Diagnostics,
) {
    let Some(Err(why)) = jitter.map(|jitter| jitter.fits(ns(delay))) else {
        return;
    };
    let at: Vec<Seg<'_>> = path.iter().copied().chain([Key("jitter")]).collect();
    let error = document.error_at(&at, "jitter", why);
    errors.push(error.with_suggestion("make the delay longer, or the jitter smaller"));
}

/// The context of reading one link.
struct LinkReader<'a, 'i> {
    parsed: &'a Document,
    /// The chosen driver, if one is chosen.
    driver: Option<DriverKind>,
    /// The name of the link's constant delay.
    delay_key: &'a str,
    path: &'a [Seg<'a>],
    inputs: &'a mut Inputs<'i>,
    errors: &'a mut Diagnostics,
}

fn ns(span: TimeSpan) -> u64 {
    span.ns().unsigned_abs()
}

impl LinkReader<'_, '_> {
    /// `shared` are the effects of keys that need no other one.
    fn effects(&mut self, raw: &RawLink, shared: Effects) -> Effects {
        let rate_law = raw.rate_law.as_ref().and_then(|law| self.rate_law(law));
        let loss = raw.loss_law.as_ref().and_then(|law| self.loss_law(law));
        if raw.loss_law.is_some() && self.written("loss") {
            self.no_effect(
                "loss",
                "loss_law",
                "`loss_law` decides which frames are lost",
            );
        }
        let mut jitter = raw.jitter.as_ref().and_then(|jitter| self.jitter(jitter));
        let mut delay_ns = None;
        if let Some(recording) = &raw.delay_trace {
            for key in [self.delay_key, "jitter"] {
                if self.written(key) {
                    self.no_effect(key, "delay_trace", "the recording is the whole delay");
                }
            }
            // A delay of zero, and the recording on top of it.
            delay_ns = Some(0);
            let law = self.delays(&["delay_trace", "file"], recording);
            jitter = law.map(Jitter::of);
        }
        let effects = Effects {
            delay_ns,
            rate_law,
            queue_frames: raw.queue_frames.map(u64::from),
            discipline: raw.aqm.as_ref().map(discipline),
            overhead_bytes: raw
                .overhead
                .and_then(|size| u32::try_from(size.bytes()).ok())
                .filter(|bytes| *bytes > 0),
            loss,
            jitter,
            ..shared
        };
        if let Err(wrong) = effects.check() {
            for message in wrong.errors {
                let error = self.parsed.error_at(self.path, "link", message);
                self.errors.push(error);
            }
        }
        if let Some(capabilities) = self.driver.map(DriverKind::capabilities) {
            self.refuse(raw, &effects, capabilities);
        }
        effects
    }

    /// Whether packets of the link's MTU can be: in IPv6, in the queue, in the driver.
    fn mtu(&mut self, raw: &RawLink, families: &[Family]) {
        /// RFC 8200, section 5.
        const IPV6_BYTES: u64 = 1280;
        const ETHERNET_BYTES: u64 = 14;
        let bytes = raw.mtu.bytes();
        let (parsed, errors) = (self.parsed, &mut *self.errors);
        let at: Vec<Seg<'_>> = self.path.iter().copied().chain([Key("mtu")]).collect();
        let mut refuse = |code, message: String, suggestion: String| {
            let error = parsed.error_at(&at, code, message);
            errors.push(error.with_suggestion(suggestion));
        };
        if bytes < IPV6_BYTES && families.contains(&Family::Ipv6) {
            let message = format!("IPv6 needs an `mtu` of {IPV6_BYTES} B at least");
            refuse(
                "out-of-range",
                message,
                "set a larger one, or `routing.families: [ipv4]`".to_owned(),
            );
        }
        let frame = bytes + ETHERNET_BYTES;
        if raw.queue.bytes() < frame {
            let message = format!("no frame of this `mtu` fits the `queue` of {}", raw.queue);
            refuse(
                "out-of-range",
                message,
                format!("make `queue` {frame} B or more"),
            );
        }
        let drivers = self
            .driver
            .map_or(DriverKind::ALL.to_vec(), |driver| vec![driver]);
        let mtu_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let refusals: Vec<String> = drivers
            .iter()
            .filter_map(|driver| driver.capabilities().mtu_refusal(mtu_bytes))
            .collect();
        if refusals.len() == drivers.len() {
            refuse(
                "driver",
                refusals.join("; "),
                "make `mtu` smaller, or choose another driver".to_owned(),
            );
        }
    }

    /// Reports settings that the chosen driver does not support.
    fn refuse(&mut self, raw: &RawLink, effects: &Effects, capabilities: Capabilities) {
        for refusal in capabilities.refusals(effects) {
            let key = match refusal.key {
                "jitter" if raw.delay_trace.is_some() => "delay_trace",
                key => key,
            };
            let driver = capabilities.driver;
            let message = format!("`{key}` is more than `links: {{driver: {driver}}}` can do");
            let error = self
                .parsed
                .error_at(&self.at(&[key]), "driver", message)
                .with_reason(refusal.why)
                .with_suggestion(format!("remove `{key}`, or choose another driver"));
            self.errors.push(error);
        }
    }

    fn at<'p>(&'p self, keys: &[&'p str]) -> Vec<Seg<'p>> {
        let keys = keys.iter().map(|key| Key(key));
        self.path.iter().copied().chain(keys).collect()
    }

    fn written(&self, key: &str) -> bool {
        self.parsed.is_written(&self.at(&[key]))
    }

    fn no_effect(&mut self, key: &str, with: &str, why: &str) {
        let message = format!("`{key}` has no effect with `{with}`");
        let error = self
            .parsed
            .error_at(&self.at(&[key]), "no-effect", message)
            .with_reason(why)
            .with_suggestion(format!("remove `{key}`, or `{with}`"));
        self.errors.push(error);
    }

    /// A recording, read by `read`; its errors name the file's own lines.
    fn recording<T>(
        &mut self,
        keys: &[&str],
        file: &str,
        read: impl FnOnce(&str) -> Result<T, Vec<trace::TraceError>>,
    ) -> Option<T> {
        let path = self.at(keys);
        let place = self.parsed.place(&path, false);
        let parsed = self.parsed;
        // The path borrows self, and the inputs are part of it.
        let path: Vec<Seg<'_>> = self
            .path
            .iter()
            .copied()
            .chain(keys.iter().map(|key| Key(key)))
            .collect();
        let input = self.inputs.text(file, &path, self.errors)?;
        match read(&input.text) {
            Ok(law) => Some(law),
            Err(wrong) => {
                let source = Source::new(&input.shown, &input.text);
                for error in wrong {
                    let span = Span::new(error.line, 1, 1);
                    let named = parsed.source().file();
                    self.errors.push(
                        Diagnostic::new(&source, span, "trace", error.message).with_next(format!(
                            "the file is named at {named}:{}:{}",
                            place.line, place.column
                        )),
                    );
                }
                None
            }
        }
    }

    fn rate_law(&mut self, raw: &RawRateLaw) -> Option<RateLaw> {
        let origin_ns = 0;
        Some(match raw {
            RawRateLaw::Csv(csv) => {
                let keys = ["rate_law", "csv", "file"];
                return self.recording(&keys, &csv.file, |text| trace::rate_csv(text, csv.repeat));
            }
            RawRateLaw::Mahimahi(recording) => {
                let keys = ["rate_law", "mahimahi", "file"];
                return self.recording(&keys, &recording.file, trace::mahimahi);
            }
            RawRateLaw::Square(square) => RateLaw::Square {
                high_bps: square.high.bps(),
                low_bps: square.low.bps(),
                high_ns: ns(square.high_for),
                low_ns: ns(square.low_for),
                origin_ns,
            },
            RawRateLaw::Sine(sine) => RateLaw::Sine {
                mean_bps: sine.mean.bps(),
                amplitude_bps: sine.amplitude.bps(),
                period_ns: ns(sine.period),
                origin_ns,
            },
            RawRateLaw::VCurve(curve) => RateLaw::VCurve {
                high_bps: curve.high.bps(),
                low_bps: curve.low.bps(),
                half_width_ns: ns(curve.ramp),
                period_ns: ns(curve.every),
                origin_ns: ns(curve.at),
            },
        })
    }

    fn loss_law(&mut self, raw: &RawLossLaw) -> Option<LossLaw> {
        Some(match raw {
            RawLossLaw::Trace(recording) => {
                let keys = ["loss_law", "trace", "file"];
                let lost = self.recording(&keys, &recording.file, trace::losses)?;
                LossLaw::Trace { lost }
            }
            RawLossLaw::BitErrors(ratio) => LossLaw::BitErrors {
                bit_error_ratio: ratio.get(),
            },
            RawLossLaw::GilbertElliott(ge) => LossLaw::GilbertElliott {
                good_to_bad: ge.good_to_bad.get(),
                bad_to_good: ge.bad_to_good.get(),
                loss_good: ge.loss_good.get(),
                loss_bad: ge.loss_bad.get(),
            },
            RawLossLaw::FourState(four) => LossLaw::FourState {
                p13: four.p13.get(),
                p31: four.p31.get(),
                p32: four.p32.get(),
                p23: four.p23.get(),
                p14: four.p14.get(),
            },
            RawLossLaw::Periodic(periodic) => LossLaw::Periodic {
                every: u64::from(periodic.every),
                burst: u64::from(periodic.burst),
            },
            RawLossLaw::Pattern(frames) => {
                let frames = frames.iter().map(|range| {
                    let last = range.last.unwrap_or(range.first);
                    (u64::from(range.first), u64::from(last))
                });
                LossLaw::Pattern {
                    frames: frames.collect(),
                }
            }
        })
    }

    fn delays(&mut self, keys: &[&str], raw: &RawDelayTrace) -> Option<JitterLaw> {
        let extra_ns = self.recording(keys, &raw.file, trace::delays_ms)?;
        Some(JitterLaw::Trace {
            interval_ns: ns(raw.interval),
            extra_ns,
            origin_ns: 0,
        })
    }

    fn jitter(&mut self, raw: &RawJitter) -> Option<Jitter> {
        let law = match &raw.law {
            RawJitterLaw::Uniform(span) => JitterLaw::Uniform {
                half_width_ns: ns(*span),
            },
            RawJitterLaw::Normal(sd) => JitterLaw::Normal { sd_ns: ns(*sd) },
            RawJitterLaw::Pareto(sd) => JitterLaw::Pareto { sd_ns: ns(*sd) },
            RawJitterLaw::ParetoNormal(sd) => JitterLaw::ParetoNormal { sd_ns: ns(*sd) },
            RawJitterLaw::Quantiles(quantiles) => JitterLaw::Table {
                quantiles_ns: quantiles.iter().map(|q| q.ns()).collect(),
            },
            RawJitterLaw::Trace(recording) => {
                self.delays(&["jitter", "trace", "file"], recording)?
            }
        };
        Some(Jitter {
            law,
            half_life_ns: raw.half_life.map_or(0, ns),
            order: raw.order,
        })
    }
}

fn discipline(raw: &RawAqm) -> Discipline {
    match raw {
        RawAqm::Codel(codel) => Discipline::Codel(CodelParams {
            target_ns: ns(codel.target),
            interval_ns: ns(codel.interval),
            ecn: codel.ecn,
        }),
        RawAqm::FqCodel(fq) => Discipline::FqCodel {
            codel: CodelParams {
                target_ns: ns(fq.target),
                interval_ns: ns(fq.interval),
                ecn: fq.ecn,
            },
            flows: fq.flows,
            quantum_bytes: u32::try_from(fq.quantum.bytes()).unwrap_or(u32::MAX),
        },
        RawAqm::Red(red) => Discipline::Red(RedParams {
            min_bytes: red.min.bytes(),
            max_bytes: red.max.bytes(),
            max_ratio: red.probability.get(),
            weight: red.weight.get(),
            gentle: red.gentle,
            ecn: red.ecn,
            frame_bytes: u32::try_from(red.frame.bytes()).unwrap_or(u32::MAX),
        }),
        RawAqm::Pie(pie) => Discipline::Pie(PieParams {
            target_ns: ns(pie.target),
            update_ns: ns(pie.update),
            burst_ns: ns(pie.burst),
            ecn: pie.ecn,
        }),
        RawAqm::CeThreshold(threshold) => Discipline::CeThreshold {
            above_ns: ns(threshold.above),
        },
        RawAqm::Drd(drd) => Discipline::Drd {
            min_frames: u64::from(drd.min_frames),
            max_frames: u64::from(drd.max_frames),
            ecn: drd.ecn,
        },
    }
}
