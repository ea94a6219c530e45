//! Rules of a box: which frames they match, and what happens to these frames.
//!
//! A box is placed in a wire between two interfaces. Its [`Rules`] are ordered: the first whose [`Match`] matches a
//! frame decides what happens to it in that [`Direction`]. A [`Classifier`] finds that rule in a time that does not
//! grow with the number of rules beyond a stated bound. [`shadowed`] lists rules that can never be the first match.
//!
//! The module does not read a clock, a file or a network. `constel-scenario` reads the users' rule files.
//!
//! ```
//! use constel_link::rules::{Action, Classifier, Direction, Head, Match, Rule, Rules};
//!
//! let voice = Rule {
//!     name: "voice".into(),
//!     matching: Match { protocol: vec![17], dport: vec![5000..=5010], ..Match::default() },
//!     forward: Some(Action::Drop),
//!     reverse: None,
//! };
//! let rules = Rules::new(vec![voice])?;
//! let classifier = Classifier::new(&rules, Direction::Forward);
//! let mut frame = vec![0; 60];
//! frame[12..14].copy_from_slice(&[0x08, 0x00]);
//! frame[14] = 0x45;
//! frame[23] = 17;
//! frame[36..38].copy_from_slice(&5004u16.to_be_bytes());
//! assert_eq!(classifier.find(&Head::read(&frame)), Some(0));
//! frame[23] = 6;
//! assert_eq!(classifier.find(&Head::read(&frame)), None, "TCP is not meant");
//! # Ok::<(), constel_link::rules::TooManyRules>(())
//! ```

mod classifier;
mod field;
mod head;
mod interface;
mod matching;
mod prefix;
mod rule;
mod sets;
mod shadow;
mod via;
pub mod words;

pub use classifier::Classifier;
pub use head::{Head, Ip};
pub use interface::Interface;
pub use matching::{Match, TrafficClass, Vlan};
pub use prefix::{Prefix, PrefixError};
pub use rule::{Action, Direction, MAX_RULES, OddInterface, Path, Rule, Rules, TooManyRules};
pub use shadow::{Shadow, shadowed};
pub use via::{GroundPoint, Via};
