//! Transfers in `traffic`, and parameters of LEOTP wherever they occur.

use super::traffic::Traffic;
use crate::diagnostic::Diagnostic;
use crate::model::{Action, LeotpSettings, LeotpVariant, Transfer, TransferProtocol};
use crate::raw::{RawLeotp, RawTcp, RawVivace};
use crate::walk::Seg::{Index, Key};

/// The first default ports of servers; LEOTP's is the protocol's own.
const LEOTP_PORT: u16 = leotp_core::wire::DEFAULT_PORT;
const TCP_PORT: u16 = 5501;
const VIVACE_PORT: u16 = 6001;

impl Traffic<'_> {
    pub(super) fn leotp(&mut self, raw: &RawLeotp) -> Option<Action> {
        self.ends("leotp", &raw.from, &raw.to);
        let family = self.family("leotp", raw.family);
        let port = self.port(raw.from.name(), raw.port, LEOTP_PORT);
        let wrong = wrong_settings(raw.variant, &raw.set);
        let good = wrong.is_empty();
        for (index, reason) in wrong {
            let tail = [Key("leotp"), Key("set"), Index(index)];
            let error = setting_error(self.error(&tail, "bad-setting", reason));
            self.errors.push(error);
        }
        good.then(|| {
            Action::Transfer(Transfer {
                from: raw.from.name().clone(),
                to: raw.to.clone(),
                size: raw.size,
                over: TransferProtocol::Leotp(LeotpSettings {
                    variant: raw.variant,
                    set: raw.set.clone(),
                }),
                family,
                port,
                records: raw.records,
            })
        })
    }

    pub(super) fn tcp(&mut self, raw: &RawTcp) -> Option<Action> {
        self.ends("tcp", &raw.from, &raw.to);
        let family = self.family("tcp", raw.family);
        let port = self.port(raw.from.name(), raw.port, TCP_PORT);
        let congestion = self.congestion("tcp", raw.congestion.clone())?;
        Some(Action::Transfer(Transfer {
            from: raw.from.name().clone(),
            to: raw.to.clone(),
            size: raw.size,
            over: TransferProtocol::Tcp { congestion },
            family,
            port,
            records: raw.records,
        }))
    }
}

impl Traffic<'_> {
    pub(super) fn vivace(&mut self, raw: &RawVivace) -> Action {
        self.ends("vivace", &raw.from, &raw.to);
        Action::Transfer(Transfer {
            from: raw.from.name().clone(),
            to: raw.to.clone(),
            size: raw.size,
            over: TransferProtocol::Vivace,
            family: self.family("vivace", raw.family),
            port: self.port(raw.from.name(), raw.port, VIVACE_PORT),
            records: raw.records,
        })
    }
}

/// The settings that cannot be: their places and why.
pub(super) fn wrong_settings(variant: LeotpVariant, set: &[String]) -> Vec<(usize, String)> {
    let base = leotp_core::Params::variant(variant.as_str()).unwrap_or_default();
    let mut wrong: Vec<(usize, String)> = Vec::new();
    for (index, setting) in set.iter().enumerate() {
        if let Err(error) = base.with_settings(std::slice::from_ref(setting)) {
            wrong.push((index, error.0.join("; ")));
        }
    }
    // Each may be good by itself and all together not.
    if wrong.is_empty()
        && let Err(error) = base.with_settings(set)
    {
        wrong.push((set.len().saturating_sub(1), error.0.join("; ")));
    }
    wrong
}

/// Adds the next step to an error of a parameter.
pub(super) fn setting_error(error: Diagnostic) -> Diagnostic {
    error.with_next("`leotp mid --set help` lists all parameters and their values")
}
