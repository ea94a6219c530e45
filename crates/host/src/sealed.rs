//! This program, executed in a way that nothing that it starts can write to its file.
//!
//! For the moment between `clone` and `exec`, `/proc/self/exe` of a container's process is the file of this program. An image
//! whose program is a script that begins with `#!/proc/self/exe` has the kernel execute it inside, with the image's own
//! dynamic loader, which can open the file for writing as soon as no process runs it any more (CVE-2019-5736 is
//! the same in other runtimes). So every verb that puts programs into nodes executes itself again, from a mount of its own file
//! that cannot be written and that is in nobody's mount namespace, or from a sealed copy in memory where the kernel has no such
//! mounts (before Linux 5.12). Then `/proc/self/exe` is that, wherever it is opened.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};

use crate::enclosure::mounts::read_only_clone;
use crate::error::{Context, Error, Result};

const OWN: &str = "/proc/self/exe";

/// Executes this program again, with the same arguments, so that its file cannot be written through `/proc/self/exe`; returns if it
/// is so already, and for users other than root, who cannot put programs into nodes. Call it before other threads exist.
///
/// # Errors
/// [`Error::Os`] when neither a read-only mount nor a sealed copy can be made and executed.
pub fn enter() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if is_sealed()? {
        keep_name();
        return Ok(());
    }
    let what = || "keep this program's file from being written by nodes".to_owned();
    let path = std::env::current_exe().context(what)?;
    let own = File::open(OWN).context(what)?;
    let sealed = match read_only_clone(own.as_fd()) {
        Ok(clone) => clone,
        Err(_) => copy(own).context(what)?,
    };
    Err(Error::os(what(), execute(&sealed, &path)))
}

/// Where this program's file is: that of [`enter`]'s caller, whatever the kernel calls the sealed one.
///
/// # Errors
/// When the kernel does not say.
pub fn own_program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    match (is_nameless(&own), std::env::args_os().next()) {
        (true, Some(name)) => Ok(name.into()),
        _ => Ok(own),
    }
}

/// Whether a name is one that the kernel gives to a detached mount or a copy in memory.
fn is_nameless(own: &Path) -> bool {
    own == Path::new("/") || own.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// Whether nobody can write what `/proc/self/exe` is.
fn is_sealed() -> Result<bool> {
    let what = || format!("look at {OWN}");
    let own = File::open(OWN).context(what)?;
    let mount = rustix::fs::fstatvfs(&own).context(what)?;
    let seals = rustix::fs::fcntl_get_seals(&own).unwrap_or(SealFlags::empty());
    Ok(mount.f_flag.contains(StatVfsMountFlags::RDONLY) || seals.contains(SealFlags::WRITE))
}

/// The kernel names a process after the descriptor that it was executed from.
fn keep_name() {
    let name = own_program().ok();
    let name = name.as_deref().and_then(Path::file_name);
    if let Some(name) = name.and_then(|name| CString::new(name.as_bytes()).ok()) {
        // A name is for people: it may fail.
        let _ = rustix::thread::set_name(&name);
    }
}

/// A copy in memory that nobody can change any more.
fn copy(mut own: File) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("constel", flags)?);
    io::copy(&mut own, &mut copy)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    // A file that is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Executes it with this process's arguments and environment, its path in the place of the first argument; returns what kept it.
fn execute(program: &OwnedFd, path: &Path) -> io::Error {
    let arguments = std::iter::once(OsString::from(path)).chain(std::env::args_os().skip(1));
    let arguments: Result<Vec<CString>, _> = arguments
        .map(|argument| CString::new(argument.as_bytes()))
        .collect();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let mut pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the arguments end with a null pointer and outlive the call; no other thread changes the environment, since none exists.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            pointers.as_ptr(),
            environ,
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn names_without_a_folder_are_no_files_of_ours() {
        assert!(is_nameless(Path::new("/")));
        assert!(is_nameless(Path::new("/memfd:constel (deleted)")));
        assert!(!is_nameless(Path::new("/usr/bin/constel")));
        assert!(!is_nameless(Path::new("/constel")));
    }

    /// Whatever is opened through either of them: it can be read, and not written, truncated, or made anybody's.
    #[test]
    fn neither_a_clone_nor_a_copy_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "text").unwrap();
        let file = || File::open(&path).unwrap();
        for sealed in [
            read_only_clone(file().as_fd()).unwrap(),
            copy(file()).unwrap(),
        ] {
            let again = format!("/proc/self/fd/{}", sealed.as_raw_fd());
            let mut text = String::new();
            File::open(&again)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "text");
            let written = File::options().append(true).open(&again);
            let written = written.and_then(|mut file| io::Write::write_all(&mut file, b"x"));
            assert!(written.is_err());
            assert!(File::create(&again).is_err());
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    }
}
