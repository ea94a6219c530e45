//! Settings of a node's interface so that it sends frames, or GSO frames of TCP, but no other super-frames.
//!
//! Delay, queue and loss apply to frames as sent on a link, so edges must get frames of MTU size, or GSO frames that
//! the relay can cut up. Two ways of getting single frames were compared. With `gso_max_segs` 1 TCP itself works frame
//! by frame and wakes its peer for each (0.4 Gbit/s instead of 5 Gbit/s). With the segmentation offloads off, TCP still
//! works in large pieces, and the kernel cuts them up just before they leave.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use crate::error::{DriverError, Result};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;

/// `struct ifreq` with its pointer member.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    rest: [u64; 2],
}

/// Numbers of the features that send super-frames; they are the same for every interface of a kernel.
static SEGMENTATION: OnceLock<Vec<usize>> = OnceLock::new();
/// Numbers of those features that are not TCP's.
static OTHER_THAN_TCP: OnceLock<Vec<usize>> = OnceLock::new();
/// Those that leave checksums to hardware.
static CHECKSUMS: OnceLock<Vec<usize>> = OnceLock::new();

/// Makes this interface *of the calling thread's namespace* send no super-frames: all its segmentation offloads are
/// turned off, checksum offload and software segmentation stay on.
///
/// # Errors
/// [`DriverError::Os`] when there is no such interface, or it refuses the change.
pub fn send_single_frames(interface: &str) -> Result<()> {
    turn_off(interface, &SEGMENTATION, is_segmentation)
}

/// Makes this interface *of the calling thread's namespace* send no super-frames other than TCP's, which the relay
/// carries as one or cuts up, as the edge requires.
///
/// # Errors
/// As [`send_single_frames`].
pub fn send_tcp_gso(interface: &str) -> Result<()> {
    turn_off(interface, &OTHER_THAN_TCP, |name| {
        is_segmentation(name) && !is_tcp(name)
    })
}

/// Makes this interface *of the calling thread's namespace* send frames whose TCP, UDP and SCTP checksums are complete, as on
/// a wire. A program that forwards frames over a raw socket needs that. The kernel then cuts up TCP's super-frames too,
/// so that the node has a few times less throughput.
///
/// # Errors
/// As [`send_single_frames`].
pub fn complete_checksums(interface: &str) -> Result<()> {
    turn_off(interface, &CHECKSUMS, |name| {
        name.starts_with(b"tx-checksum-")
    })
}

/// Returns whether it is a TCP feature whose frames differ only in position, length and the flags of the first and
/// last. The node's kernel cuts up the others (fixed identification, accurate ECN).
fn is_tcp(name: &[u8]) -> bool {
    let plain: [&[u8]; 3] = [
        b"tx-tcp-segmentation",
        b"tx-tcp-ecn-segmentation",
        b"tx-tcp6-segmentation",
    ];
    plain.contains(&name)
}

fn turn_off(
    interface: &str,
    features: &OnceLock<Vec<usize>>,
    which: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let what = |source| DriverError::Os {
        what: format!("turn offloads of {interface} off"),
        source,
    };
    let socket = socket().map_err(what)?;
    let features = match features.get() {
        Some(features) => features,
        None => {
            let found = find_features(&socket, interface, which).map_err(what)?;
            features.get_or_init(|| found)
        }
    };
    let blocks = features.iter().max().map_or(0, |max| max / 32 + 1);
    // Layout: cmd, size, then {valid, requested} per block of 32 features.
    let mut words = vec![0u32; 2 + 2 * blocks];
    words[0] = ETHTOOL_SFEATURES;
    words[1] = blocks as u32;
    for &feature in features {
        // Only `valid` is set: the feature may change, and its requested value 0 turns it off.
        words[2 + 2 * (feature / 32)] |= 1 << (feature % 32);
    }
    ethtool(&socket, interface, &mut words).map_err(what)
}

fn find_features(
    socket: &OwnedFd,
    interface: &str,
    which: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<usize>> {
    // Layout: cmd, reserved, mask (two words), then one word per requested set.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ethtool(socket, interface, &mut info)?;
    let count = info[4] as usize;
    // Layout: cmd, set, length, then the names.
    let mut words = vec![0u32; 3 + count * NAME_BYTES / 4];
    words[0] = ETHTOOL_GSTRINGS;
    words[1] = ETH_SS_FEATURES;
    words[2] = count as u32;
    ethtool(socket, interface, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let found = bytes
        .chunks_exact(NAME_BYTES)
        .map(|name| name.split(|&b| b == 0).next().unwrap_or_default())
        .enumerate()
        .filter(|(_, name)| which(name))
        .map(|(n, _)| n)
        .collect();
    Ok(found)
}

fn is_segmentation(name: &[u8]) -> bool {
    let hardware = name.starts_with(b"tx-") && name.ends_with(b"-segmentation");
    // "Generic" is the software segmentation, which cuts up the super-frames that the others would have sent.
    (hardware && name != b"tx-generic-segmentation") || name.starts_with(b"tx-gso-")
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call, checked.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ethtool(socket: &OwnedFd, interface: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = Request {
        name: [0; 16],
        data: words.as_mut_ptr().cast(),
        rest: [0; 2],
    };
    if interface.len() > 15 {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: the request and the words it points to outlive the call; each command above is
    // given as many words as it says it has.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_them_by_name() {
        for name in [
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-udp-segmentation",
        ] {
            assert!(is_segmentation(name.as_bytes()), "{name}");
        }
        for name in [
            "tx-generic-segmentation",
            "tx-checksum-ip-generic",
            "rx-gro",
        ] {
            assert!(!is_segmentation(name.as_bytes()), "{name}");
        }
        assert!(is_segmentation(b"tx-gso-list"));
        assert!(is_tcp(b"tx-tcp6-segmentation") && !is_tcp(b"tx-udp-segmentation"));
    }

    #[test]
    fn gso_frames_are_plain_tcp() {
        assert!(is_tcp(b"tx-tcp-segmentation") && is_tcp(b"tx-tcp6-segmentation"));
        assert!(!is_tcp(b"tx-tcp-mangleid-segmentation"));
        assert!(!is_tcp(b"tx-tcp-accecn-segmentation"));
    }

    #[test]
    fn no_such_interface() {
        assert!(send_single_frames("there-is-none").is_err());
        assert!(send_single_frames("a-name-that-is-far-too-long").is_err());
    }
}
