//! Where labs are in the store.

pub(crate) const ORDERS: &str = "constel/labs/order/";

pub(crate) fn order(lab: &str) -> String {
    format!("{ORDERS}{lab}")
}

/// All that goes on in a lab.
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

/// Machines that a lab goes on without.
pub(crate) fn losses(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/lost/")
}

pub(crate) fn loss(lab: &str, machine: &str) -> String {
    format!("{}{machine}", losses(lab))
}

/// That machines have made anew what they were to take of one that is lost.
pub(crate) fn taken(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/taken/")
}

pub(crate) fn took(lab: &str, lost: &str, taker: &str) -> String {
    format!("{}{lost}/{taker}", taken(lab))
}

/// That nodes of a lost machine have their links again.
pub(crate) fn backs(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/back/")
}

pub(crate) fn back(lab: &str, lost: &str) -> String {
    format!("{}{lost}", backs(lab))
}

/// What all machines change by hand.
pub(crate) fn changes(lab: &str) -> String {
    format!("constel/labs/lab/{lab}/change/")
}

/// A change that a machine was asked for, the one of this number.
pub(crate) fn change(lab: &str, machine: &str, number: u64) -> String {
    format!("{}{machine}/{number}", changes(lab))
}

/// Files of a lab's scenario.
pub(crate) fn files(lab: &str) -> String {
    format!("constel/labs/file/{lab}/")
}

/// What a machine's part left.
pub(crate) fn results(lab: &str, machine: &str) -> String {
    format!("constel/labs/result/{lab}/{machine}/")
}

/// Questions about a lab.
pub(crate) fn asks(lab: &str) -> String {
    format!("constel/labs/ask/{lab}/")
}

pub(crate) fn answer(number: &str) -> String {
    format!("constel/labs/answer/{number}")
}

/// What the command that was asked for is to read.
pub(crate) fn input(number: &str) -> String {
    format!("constel/labs/input/{number}/")
}

/// What is typed at the terminal of the shell that was asked for.
pub(crate) fn typed(number: &str) -> String {
    format!("constel/labs/typed/{number}/")
}

/// What it has written.
pub(crate) fn output(number: &str) -> String {
    format!("constel/labs/output/{number}/")
}
