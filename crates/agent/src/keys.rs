//! Where agents keep what in the store.
//!
//! | key | holds | goes |
//! |---|---|---|
//! | `constel/agents/owner/NAME` | who has the name: version and session | with the lease |
//! | `constel/agents/record/NAME` | how the machine is ([`Record`](crate::Record)) | when it leaves; stays when it is lost |
//! | `constel/agents/ask/NAME/SESSION` | a question to the machine: a nonce | with the asker's lease |
//! | `constel/agents/answer/SESSION/NAME` | its answer | with the asker's lease |
//! | `constel/agents/reach/NAME/NUMBER` | that it is to find out how raw Ethernet reaches others | with the asker's lease |
//! | `constel/agents/reached/NUMBER/NAME` | what it found | with the asker's lease |

/// All of it.
pub(crate) const ROOT: &str = "constel/agents/";

pub(crate) const OWNERS: &str = "constel/agents/owner/";
pub(crate) const RECORDS: &str = "constel/agents/record/";

pub(crate) fn owner(name: &str) -> String {
    format!("{OWNERS}{name}")
}

pub(crate) fn record(name: &str) -> String {
    format!("{RECORDS}{name}")
}

/// Questions to a machine.
pub(crate) fn asks(name: &str) -> String {
    format!("{ROOT}ask/{name}/")
}

/// Answers to a session.
pub(crate) fn answers(session: &str) -> String {
    format!("{ROOT}answer/{session}/")
}

/// Questions to a machine about how raw Ethernet reaches others.
pub(crate) fn reach(name: &str) -> String {
    format!("{ROOT}reach/{name}/")
}

/// Answers to one of them.
pub(crate) fn reached(number: &str) -> String {
    format!("{ROOT}reached/{number}/")
}
