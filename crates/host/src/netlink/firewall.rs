//! Chains of nf_tables that may drop this machine's own packets.

use std::collections::BTreeSet;

use super::socket::Socket;
use super::wire::{attributes, text};
use crate::error::Result;

/// `NFNL_SUBSYS_NFTABLES`, in the upper byte of a message's type.
const NFTABLES: u16 = 10 << 8;
const NEW_CHAIN: u16 = NFTABLES | 3;
const GET_CHAIN: u16 = NFTABLES | 4;
const NEW_RULE: u16 = NFTABLES | 6;
const GET_RULE: u16 = NFTABLES | 7;

/// Attributes of chains (`NFTA_CHAIN_*`) and of their hooks (`NFTA_HOOK_*`).
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const HOOK_NUMBER: u16 = 1;

/// Attributes of rules (`NFTA_RULE_*`), expressions (`NFTA_EXPR_*`, `NFTA_IMMEDIATE_*`) and verdicts (`NFTA_DATA_*`,
/// `NFTA_VERDICT_*`).
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// `NF_DROP`, and the codes of jumps.
const DROP: i32 = 0;
const JUMP: i32 = -3;
const GOTO: i32 = -4;

/// A base chain through which packets from or to programs of this machine pass, and which may drop them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppingChain {
    /// The family as `nft` writes it: `ip` or `inet`.
    pub family: &'static str,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// Whether it sees packets that arrive (`input`, `prerouting`); else those that are sent.
    pub arriving: bool,
    /// The reason: `policy drop`, or the first rule that drops or rejects packets, as `handle 4`; with its chain if that is
    /// another one, to which this one jumps.
    pub why: String,
}

#[derive(Debug)]
struct Chain {
    family: u8,
    table: String,
    name: String,
    hook: Option<u32>,
    drops: bool,
}

#[derive(Debug)]
struct Rule {
    family: u8,
    table: String,
    chain: String,
    handle: u64,
    drops: bool,
    /// Chains to which it jumps.
    to: Vec<String>,
}

/// Returns the base chains of the calling thread's namespace that may drop IPv4 packets from or to programs of this machine.
/// It does not evaluate the conditions of rules. Rules of `iptables-legacy` are not among them.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the kernel does not list them: without nf_tables, or without the right to.
pub fn dropping_chains() -> Result<Vec<DroppingChain>> {
    let mut socket = Socket::open_to(libc::NETLINK_NETFILTER)?;
    // `nfgenmsg`: all families.
    let body = [0; 4];
    let chains = socket.dump(
        "list chains of the firewall",
        GET_CHAIN,
        &body,
        |kind, p| Ok((kind == NEW_CHAIN).then(|| chain(p)).flatten()),
    )?;
    let rules = socket.dump("list rules of the firewall", GET_RULE, &body, |kind, p| {
        Ok((kind == NEW_RULE).then(|| rule(p)).flatten())
    })?;
    Ok(dropping(&chains, &rules))
}

fn dropping(chains: &[Chain], rules: &[Rule]) -> Vec<DroppingChain> {
    let base = |chain: &Chain| {
        let family = match i32::from(chain.family) {
            // `NFPROTO_INET`, which the library does not define for all targets.
            1 => "inet",
            libc::AF_INET => "ip",
            _ => return None,
        };
        let arriving = match chain.hook? {
            0 | 1 => true,
            3 | 4 => false,
            _ => return None,
        };
        Some(DroppingChain {
            family,
            table: chain.table.clone(),
            chain: chain.name.clone(),
            arriving,
            why: why(chain, rules)?,
        })
    };
    chains.iter().filter_map(base).collect()
}

/// Returns why packets may be dropped in a chain or those that it jumps to.
fn why(chain: &Chain, rules: &[Rule]) -> Option<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![chain.name.as_str()]);
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        let is_own = |rule: &&Rule| {
            (rule.family, rule.table.as_str(), rule.chain.as_str())
                == (chain.family, chain.table.as_str(), name)
        };
        for rule in rules.iter().filter(is_own) {
            if rule.drops {
                return Some(match name == chain.name {
                    true => format!("handle {}", rule.handle),
                    false => format!("handle {} of chain {name}", rule.handle),
                });
            }
            open.extend(rule.to.iter().map(String::as_str));
        }
    }
    chain.drops.then(|| "policy drop".to_owned())
}

fn big(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn find(attribute: u16, all: &[u8]) -> Option<&[u8]> {
    let mut all = attributes(all);
    all.find(|(kind, _)| *kind == attribute)
        .map(|(_, value)| value)
}

fn chain(payload: &[u8]) -> Option<Chain> {
    let (family, all) = (*payload.first()?, payload.get(4..)?);
    let hook = find(CHAIN_HOOK, all).and_then(|hook| find(HOOK_NUMBER, hook));
    let policy = find(CHAIN_POLICY, all).and_then(big);
    Some(Chain {
        family,
        table: text(find(CHAIN_TABLE, all)?),
        name: text(find(CHAIN_NAME, all)?),
        hook: hook.and_then(big),
        drops: policy == Some(DROP as u32),
    })
}

fn rule(payload: &[u8]) -> Option<Rule> {
    let (family, all) = (*payload.first()?, payload.get(4..)?);
    let handle = find(RULE_HANDLE, all)?.first_chunk();
    let mut rule = Rule {
        family,
        table: text(find(RULE_TABLE, all)?),
        chain: text(find(RULE_CHAIN, all)?),
        handle: handle.map_or(0, |bytes| u64::from_be_bytes(*bytes)),
        drops: false,
        to: Vec::new(),
    };
    for (_, expression) in attributes(find(RULE_EXPRESSIONS, all).unwrap_or_default()) {
        let name = find(EXPRESSION_NAME, expression).map(text);
        let data = find(EXPRESSION_DATA, expression).unwrap_or_default();
        match name.as_deref() {
            Some("reject") => rule.drops = true,
            // A target of iptables that nf_tables has no expression for; its name is the first attribute.
            Some("target") => {
                let target = find(1, data).map(text);
                rule.drops |= matches!(target.as_deref(), Some("REJECT" | "DROP"));
            }
            Some("immediate") => {
                let verdict = find(IMMEDIATE_DATA, data).and_then(|data| find(DATA_VERDICT, data));
                let Some(verdict) = verdict else { continue };
                let code = find(VERDICT_CODE, verdict).and_then(big);
                match code.map(|code| code as i32) {
                    Some(DROP) => rule.drops = true,
                    Some(JUMP | GOTO) => {
                        rule.to.extend(find(VERDICT_CHAIN, verdict).map(text));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str, hook: u32, drops: bool) -> Chain {
        Chain {
            family: libc::AF_INET as u8,
            table: "filter".to_owned(),
            name: name.to_owned(),
            hook: Some(hook),
            drops,
        }
    }

    fn rule(chain: &str, handle: u64, drops: bool, to: &[&str]) -> Rule {
        Rule {
            family: libc::AF_INET as u8,
            table: "filter".to_owned(),
            chain: chain.to_owned(),
            handle,
            drops,
            to: to.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn chains_that_may_drop_are_named_with_the_reason() {
        let chains = [
            base("INPUT", 1, false),
            base("FORWARD", 2, true),
            base("OUTPUT", 3, true),
            base("open", 1, false),
        ];
        // Docker's and ufw's chains are behind jumps, which may form circles.
        let rules = [
            rule("INPUT", 3, false, &["ufw", "INPUT"]),
            rule("ufw", 5, false, &["INPUT"]),
            rule("ufw", 6, true, &[]),
            rule("unused", 7, true, &[]),
        ];
        let found = dropping(&chains, &rules);
        let found: Vec<_> = found
            .iter()
            .map(|c| (&*c.chain, c.arriving, &*c.why))
            .collect();
        let expected = [
            ("INPUT", true, "handle 6 of chain ufw"),
            ("OUTPUT", false, "policy drop"),
        ];
        assert_eq!(found, expected);
        assert_eq!(dropping(&chains[..2], &[]), []);
    }
}
