//! Figures for people.

use constel_plan::Lab;
use constel_scenario::model::Orbits;
use serde::Serialize;

use crate::capacity::costs::MEMORY_ERROR_RATIO;
use crate::capacity::figure::{Figure, MachineCapacity, Resource};
use crate::capacity::needs::Needs;

/// The resources that a lab needs, compared with those of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The resources that the lab needs.
    pub needs: Needs,
    /// The resources of the machine.
    pub room: MachineCapacity,
    /// Each resource with both amounts.
    pub figures: Vec<Figure>,
    /// The resources that will not suffice, and the nearest size of the lab that fits, in words; empty: the lab
    /// fits.
    pub short: Vec<String>,
}

impl Estimate {
    /// Returns the estimate of a lab, with or without its traffic, on a machine with these resources.
    #[must_use]
    pub fn new(lab: &Lab, traffic: bool, room: MachineCapacity) -> Self {
        let needs = Needs::of(lab, traffic);
        let figures = needs.on(&room);
        let short = figures
            .iter()
            .filter(|figure| !figure.is_enough())
            .map(|figure| figure.shortage(lab, &needs))
            .collect();
        Self {
            needs,
            room,
            figures,
            short,
        }
    }

    /// Whether everything fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.short.is_empty()
    }

    /// Returns the resources that the lab needs to be made and that will not suffice, even with the largest
    /// error of the estimate.
    pub fn hopeless(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| {
            let certain = match figure.what {
                Resource::Memory => 1.0 - MEMORY_ERROR_RATIO,
                _ => 1.0,
            };
            figure.what.is_hard() && figure.needed * certain > figure.there
        })
    }
}

impl Figure {
    /// Returns `memory  3.1 GB of 21.4 GB`: the needed amount, and the available one.
    #[must_use]
    pub fn in_words(&self) -> String {
        let of = |amount: f64| match self.what {
            Resource::Memory => bytes(amount),
            Resource::Descriptors | Resource::Processes => whole(amount),
            Resource::Processors => format!("{amount:.1}"),
            Resource::Carrier => format!("{:.0} %", amount * 100.0),
        };
        format!("{} of {}", of(self.needed), of(self.there))
    }

    /// The resource's name in messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.what {
            Resource::Memory => "memory",
            Resource::Descriptors => "open files",
            Resource::Processes => "processes",
            Resource::Processors => "processors",
            Resource::Carrier => "thread that carries frames",
        }
    }

    /// Describes the missing resource, and what would help.
    fn shortage(&self, lab: &Lab, needs: &Needs) -> String {
        let size = match self.fits {
            Some(scale) => nearest(lab, scale),
            None => None,
        };
        let help = match (self.what, size) {
            (_, Some(size)) => size,
            (Resource::Processors | Resource::Carrier, None) => {
                let most = &needs.flows;
                format!(
                    "at {} s flows send {} frames a second over links: send less, or over fewer hops, or frames will be late",
                    most.at_s,
                    whole(most.most.frames_per_s)
                )
            }
            (_, None) => "a lab without nodes would not fit either".to_owned(),
        };
        format!("{}: {}: {help}", self.name(), self.in_words())
    }
}

/// The nearest size that fits: whole planes where there is one Walker pattern, else nodes. `None`: not one node does.
fn nearest(lab: &Lab, scale: f64) -> Option<String> {
    let satellites = lab.layout.satellite_count();
    if let [one] = lab.scenario.constellations.as_slice()
        && let Orbits::Walker(walker) = &one.orbits
    {
        let fitting = (f64::from(walker.planes) * scale).floor();
        let of_plane = f64::from(walker.satellites) / f64::from(walker.planes);
        return (fitting >= 1.0).then(|| {
            format!(
                "{} of its {} planes would fit ({} satellites)",
                whole(fitting),
                walker.planes,
                whole(fitting * of_plane)
            )
        });
    }
    let nodes = lab.layout.nodes().len();
    let fitting = (nodes as f64 * scale).floor();
    (fitting >= 1.0).then(|| {
        format!(
            "{} of its {nodes} nodes ({satellites} satellites) would fit",
            whole(fitting)
        )
    })
}

fn bytes(amount: f64) -> String {
    match amount {
        a if a >= 1e9 => format!("{:.1} GB", a / 1e9),
        a => format!("{:.0} MB", a / 1e6),
    }
}

/// With a comma between thousands.
fn whole(amount: f64) -> String {
    let digits = format!("{amount:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(whole(7.4), "7");
        assert_eq!(whole(1_234_567.0), "1,234,567");
        assert_eq!(bytes(20_940_000_000.0), "20.9 GB");
        assert_eq!(bytes(51_000_000.0), "51 MB");
    }
}
