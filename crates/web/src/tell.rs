//! Steps for browsers: browsers in the same state get the same message, which is created once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tungstenite::Bytes;

use crate::frame::{Before, Links};

/// Number of messages that are kept for other clients.
const KEPT: usize = 4;

/// The latest state of one browser.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    told: Option<LastSent>,
}

#[derive(Debug, Clone)]
struct LastSent {
    step: u64,
    links: Arc<Links>,
    /// Lab time of the positions for later.
    then_ns: u64,
}

/// The values that a message depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The previous step of the browser, and whether that message contained this step's positions.
    before: Option<(u64, bool)>,
    step: u64,
    then_ns: u64,
}

/// Messages of late.
#[derive(Debug, Default)]
pub(crate) struct Tellings {
    kept: Mutex<VecDeque<(Key, Bytes, Arc<Links>)>>,
}

impl Tellings {
    /// Returns the message that brings a browser in the state of `teller` to a step at `t_ns`, with positions at `then_ns`,
    /// and updates `teller`. A parallel call for the same message waits for it.
    pub(crate) fn tell(
        &self,
        teller: &mut Teller,
        (step, t_ns, then_ns): (u64, u64, u64),
        links: impl FnOnce() -> Links,
        message: impl FnOnce(&Links, Option<Before<'_>>) -> Vec<u8>,
    ) -> Bytes {
        let before = teller.told.as_ref();
        let continues = before.is_some_and(|told| told.then_ns == t_ns);
        let key = Key {
            before: before.map(|told| (told.step, continues)),
            step,
            then_ns,
        };
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let same = kept.iter().find(|(known, ..)| *known == key);
        let (message, links) = if let Some((_, message, links)) = same {
            (message.clone(), Arc::clone(links))
        } else {
            let of_step = kept.iter().find(|(known, ..)| known.step == step);
            let links =
                of_step.map_or_else(|| Arc::new(links()), |(_, _, links)| Arc::clone(links));
            let before = before.map(|told| Before {
                links: &told.links,
                continues,
            });
            let message = Bytes::from(message(&links, before));
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back((key, message.clone(), Arc::clone(&links)));
            (message, links)
        };
        teller.told = Some(LastSent {
            step,
            links,
            then_ns,
        });
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sky::Skies;
    use crate::sky::tests::iridium;

    #[test]
    fn who_knows_the_same_is_told_one_message_whichever_way_it_came_to_know() {
        let skies = Skies::new(iridium());
        let [mut first, mut second, mut late] = [(); 3].map(|()| Teller::default());
        for step in [3, 4, 5, 9] {
            let told = skies.tell(&mut first, step, 1).unwrap();
            let again = skies.tell(&mut second, step, 1).unwrap();
            assert_eq!(told.as_ptr(), again.as_ptr(), "step {step}");
            if step == 5 {
                let whole = skies.tell(&mut late, step, 1).unwrap();
                assert!(whole.len() > told.len());
            }
            if step == 9 {
                let joined = skies.tell(&mut late, step, 1).unwrap();
                assert_eq!(joined.as_ptr(), told.as_ptr());
            }
        }
        // By other positions for later, or none before, it is another message.
        let other = skies.tell(&mut first, 10, 2).unwrap();
        assert_ne!(skies.tell(&mut second, 10, 1).unwrap(), other);
        // A message that is no longer kept is created again, and is the same.
        let before = first.told.clone();
        let told = skies.tell(&mut first, 11, 1).unwrap();
        for step in 20..20 + KEPT as u64 {
            skies.tell(&mut late, step, 1).unwrap();
        }
        let mut anew = Teller { told: before };
        let again = skies.tell(&mut anew, 11, 1).unwrap();
        assert_eq!(again, told);
        assert_ne!(again.as_ptr(), told.as_ptr());
    }
}
