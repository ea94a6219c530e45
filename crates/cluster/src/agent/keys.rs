//! The keys that agents use in the store.
//!
//! | key | value | removed |
//! |---|---|---|
//! | `constel/agents/owner/NAME` | the agent that holds the name: version and session | with the lease |
//! | `constel/agents/record/NAME` | the machine's description ([`Record`](crate::agent::Record)) | when it leaves; stays when it is lost |
//! | `constel/agents/ask/NAME/SESSION` | a request to the machine: a nonce | with the requester's lease |
//! | `constel/agents/answer/SESSION/NAME` | the machine's reply | with the requester's lease |
//! | `constel/agents/reach/NAME/NUMBER` | a request to test how raw Ethernet reaches others | with the requester's lease |
//! | `constel/agents/reached/NUMBER/NAME` | the result of that test | with the requester's lease |

/// Prefix of all keys of agents.
pub(crate) const ROOT: &str = "constel/agents/";

pub(crate) const OWNERS: &str = "constel/agents/owner/";
pub(crate) const RECORDS: &str = "constel/agents/record/";

pub(crate) fn owner(name: &str) -> String {
    format!("{OWNERS}{name}")
}

pub(crate) fn record(name: &str) -> String {
    format!("{RECORDS}{name}")
}

/// Returns the prefix of the requests to a machine.
pub(crate) fn asks(name: &str) -> String {
    format!("{ROOT}ask/{name}/")
}

/// Returns the prefix of the replies to a session.
pub(crate) fn answers(session: &str) -> String {
    format!("{ROOT}answer/{session}/")
}

/// Returns the prefix of the requests to a machine to test raw Ethernet.
pub(crate) fn reach(name: &str) -> String {
    format!("{ROOT}reach/{name}/")
}

/// Returns the prefix of the replies to one such request.
pub(crate) fn reached(number: &str) -> String {
    format!("{ROOT}reached/{number}/")
}
