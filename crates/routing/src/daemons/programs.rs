//! The routing programs of a node, and their start.

use super::{Protocol, Software, Spec};
use std::ffi::OsString;
use std::path::Path;

/// One daemon of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Name of the executable; also of its configuration file (with `.conf`) and its template (with `.conf.j2`).
    pub name: &'static str,
    /// Debian package that has it.
    pub package: &'static str,
    /// Whether other programs of the node depend on it. It is started before them, and they are restarted together with it.
    pub first: bool,
    /// Whether it runs only in nodes with BGP.
    pub only_bgp: bool,
}

const BIRD: Program = Program {
    name: "bird",
    package: "bird2",
    first: false,
    only_bgp: false,
};

const fn frr(name: &'static str) -> Program {
    Program {
        name,
        package: "frr",
        first: false,
        only_bgp: false,
    }
}

/// The daemons of nodes, in the order in which they are started.
#[must_use]
pub fn programs(spec: &Spec) -> Vec<Program> {
    if spec.software == Software::Bird {
        return vec![BIRD];
    }
    let mut programs = vec![Program {
        first: true,
        ..frr("zebra")
    }];
    programs.extend(spec.bfd.map(|_| frr("bfdd")));
    match spec.protocol {
        Protocol::Ospf => {
            programs.extend(spec.ipv4.then_some(frr("ospfd")));
            programs.extend(spec.ipv6.then_some(frr("ospf6d")));
        }
        Protocol::Isis => programs.push(frr("isisd")),
        // Refused by `Spec::check`.
        Protocol::Babel => {}
    }
    if !spec.systems.is_empty() {
        programs.push(Program {
            only_bgp: true,
            ..frr("bgpd")
        });
    }
    programs
}

/// Arguments for `bird`: in the foreground, with this configuration and control socket. It logs to standard
/// error.
#[must_use]
pub fn bird_arguments(configuration: &Path, control: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-f".into(), "-c".into(), configuration.into()];
    arguments.extend(["-s".into(), control.into()]);
    arguments
}

/// Arguments for a daemon of FRR: in the foreground, with this configuration, everything it makes in `dir`, and
/// no TCP port for its terminal. It logs to standard output. FRR's daemons give up root for the user `frr`, as
/// Debian runs them, and keep CAP_NET_ADMIN and CAP_NET_RAW: `dir` must be that user's.
#[must_use]
pub fn frr_arguments(program: &Program, configuration: &Path, dir: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-f".into(), configuration.into()];
    arguments.extend([
        "-i".into(),
        dir.join(format!("{}.pid", program.name)).into(),
    ]);
    arguments.extend(["--vty_socket".into(), dir.into()]);
    arguments.extend(["-z".into(), dir.join(ZAPI_SOCKET).into()]);
    let fixed = [
        "-P",
        "0",
        "-u",
        "frr",
        "-g",
        "frr",
        "--log",
        "stdout",
        "--log-level",
        "info",
    ];
    arguments.extend(fixed.map(OsString::from));
    if program.name == "bgpd" {
        // The sockets of all nodes' bgpds are apart by their namespaces.
        arguments.extend(["-p", "179"].map(OsString::from));
    }
    if program.name == "bfdd" {
        arguments.extend(["--bfdctl".into(), dir.join("bfdd.sock").into()]);
    }
    arguments
}

/// Path of zebra's socket for the other daemons, in a node's folder.
pub const ZAPI_SOCKET: &str = "zserv.api";
