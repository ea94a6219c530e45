//! The two TCP gateways of a lab: their key and their commands.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use constel_plan::Blueprint;
use constel_scenario::model::{Gateway, Midnodes, Name};
use constel_topology::{NodeId, Port};

use crate::error::EngineError;
use crate::nodes::launcher::daemons_folder;
use crate::traffic::helpers::LEOTP;

/// The maximum number of simultaneous connections of a gateway; one client may have all of them.
const MOST_CONNECTIONS: &str = "16384";

/// Returns the path of the gateways' common key in the lab's runtime folder, where nodes see it. It is removed with
/// the folder.
pub(crate) fn key_file(lab_dir: &Path) -> PathBuf {
    daemons_folder(lab_dir).join("gateways.key")
}

/// Creates a random key in a file that only its owner can read.
///
/// # Errors
/// When it cannot be written, or exists already.
pub(crate) fn make_key(file: &Path) -> Result<(), EngineError> {
    let write = || -> io::Result<()> {
        let mut key = [0_u8; 32];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        file.write_all(digits.as_bytes())
    };
    write().map_err(|source| EngineError::Io {
        what: format!("write {}", file.display()),
        source,
    })
}

/// Returns the nodes of the gateways and their commands.
pub(crate) fn plan(
    blueprint: &Blueprint,
    midnodes: &Midnodes,
    key: &Path,
) -> Vec<(NodeId, Vec<String>)> {
    let Some([a, b]) = &midnodes.gateways else {
        return Vec::new();
    };
    // The names were checked when the lab was laid out.
    let ends = [(a, b), (b, a)];
    ends.into_iter()
        .filter_map(|(own, peer)| {
            let node = find(blueprint, &own.node)?;
            let mut argv = command(blueprint, own, peer, key)?;
            argv.extend(midnodes.settings.arguments());
            Some((node, argv))
        })
        .collect()
}

fn find(blueprint: &Blueprint, name: &Name) -> Option<NodeId> {
    Some(blueprint.lab.layout.find(name.as_str())?.id)
}

/// Returns the command of `leotp gateway` at `own`, which carries connections from hosts behind it to hosts behind
/// `peer`.
fn command(
    blueprint: &Blueprint,
    own: &Gateway,
    peer: &Gateway,
    key: &Path,
) -> Option<Vec<String>> {
    let address = |gateway: &Gateway| -> Option<IpAddr> {
        let node = find(blueprint, &gateway.node)?;
        // One LEOTP conversation carries connections of both families.
        blueprint.loopbacks(node).first().copied()
    };
    let (at, to) = (address(own)?, address(peer)?);
    let mut argv = vec![
        LEOTP.to_owned(),
        "gateway".to_owned(),
        "--json".to_owned(),
        "--key-file".to_owned(),
        key.display().to_string(),
        "--bind".to_owned(),
        at.to_string(),
    ];
    for most in ["--max-connections", "--max-per-client"] {
        argv.extend([most.to_owned(), MOST_CONNECTIONS.to_owned()]);
    }
    for name in interfaces(blueprint, own) {
        argv.extend(["--interface".to_owned(), name.to_owned()]);
    }
    // One host prefix per server: the gateway carries connections to these hosts only.
    for server in addresses(blueprint, peer) {
        let len = if server.is_ipv4() { 32 } else { 128 };
        argv.extend(["--peer".to_owned(), format!("{server}/{len}={to}")]);
    }
    Some(argv)
}

/// Returns the interfaces of a gateway whose cables lead to hosts behind it.
fn interfaces<'a>(blueprint: &'a Blueprint, gateway: &Gateway) -> Vec<&'a str> {
    let layout = &blueprint.lab.layout;
    let Some(node) = find(blueprint, &gateway.node) else {
        return Vec::new();
    };
    let behind = |port: &&Port| {
        let far = layout.far_port(port.id).map(|far| layout.port(far).node);
        let far = far.map(|node| layout.node(node).name.as_str());
        far.is_some_and(|far| gateway.behind.iter().any(|name| name.as_str() == far))
    };
    let ports = layout.ports_of(node).iter().filter(behind);
    ports.map(Port::name).collect()
}

/// Returns all addresses of the hosts behind a gateway.
fn addresses(blueprint: &Blueprint, gateway: &Gateway) -> Vec<IpAddr> {
    let hosts = gateway
        .behind
        .iter()
        .filter_map(|name| find(blueprint, name));
    hosts
        .flat_map(|host| {
            let setup = blueprint.setup(host);
            let ports = setup.ports.into_iter().filter_map(|port| port.address);
            let ports: Vec<IpAddr> = ports.map(|(address, _)| address).collect();
            setup.loopback.into_iter().chain(ports)
        })
        .collect()
}
