//! The keys of labs in the store.

pub(crate) const ORDERS: &str = "constel/labs/order/";

pub(crate) fn order(lab: &str) -> String {
    format!("{ORDERS}{lab}")
}

/// Returns the prefix of the keys that describe the progress of a lab.
pub(crate) fn lab(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/")
}

pub(crate) fn parts(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/part/")
}

pub(crate) fn part(lab: &str, machine: &str) -> String {
    format!("{}{machine}", parts(lab))
}

pub(crate) fn ways(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/ways")
}

pub(crate) fn go(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/go")
}

pub(crate) fn end(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/end")
}

/// Returns the prefix for machines that a lab continues without.
pub(crate) fn losses(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/lost/")
}

pub(crate) fn loss(lab: &str, machine: &str) -> String {
    format!("{}{machine}", losses(lab))
}

/// Returns the prefix for the takeovers: machines have created again the nodes of a lost machine that they were assigned.
pub(crate) fn taken(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/taken/")
}

pub(crate) fn took(lab: &str, lost: &str, taker: &str) -> String {
    format!("{}{lost}/{taker}", taken(lab))
}

/// Returns the prefix for lost machines whose nodes have their links again.
pub(crate) fn backs(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/back/")
}

pub(crate) fn back(lab: &str, lost: &str) -> String {
    format!("{}{lost}", backs(lab))
}

/// Returns the prefix of the manual changes that all machines apply.
pub(crate) fn changes(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/change/")
}

/// Returns the key of change `number` that a machine received.
pub(crate) fn change(lab: &str, machine: &str, number: u64) -> String {
    format!("{}{machine}/{number}", changes(lab))
}

/// Returns the prefix of the files of a lab's scenario.
pub(crate) fn files(lab: &str) -> String {
    format!("constel/labs/file/{lab}/")
}

/// Returns the prefix of the results of a machine's part.
pub(crate) fn results(lab: &str, machine: &str) -> String {
    format!("constel/labs/result/{lab}/{machine}/")
}
