//! Images assembled from the installed Debian packages of this host: their programs and the libraries that these need. No
//! network, registry or other program is necessary. The same packages give the same image.

mod elf;
mod files;
mod packages;
mod video;

use std::fmt;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;

use serde_json::json;

use crate::image::digest::Digesting;
use crate::image::error::Fault;
use crate::image::progress::Step;
use crate::image::source::{Blob, Context, Found, OneFile, spool_file};
use files::{Files, Item};
use packages::{Packages, in_image};

/// The images that can be assembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// A shell and the usual small programs: busybox.
    Base,
    /// The base with FRRouting: zebra, its protocol daemons and vtysh.
    Frr,
    /// The base with BIRD.
    Bird,
    /// The base with nginx, which serves a video.
    NginxVideo,
    /// The base with ffmpeg, which plays the video.
    FfmpegClient,
}

/// A package and its files that go into the image: paths that begin with one of these texts; for a text with a leading `/`,
/// paths that end with it.
struct PackageFiles {
    package: &'static str,
    take: &'static [&'static str],
    /// The package to install for it, if that is another one.
    install: &'static str,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Recipe; 5] = [
        Self::Base,
        Self::Frr,
        Self::Bird,
        Self::NginxVideo,
        Self::FfmpegClient,
    ];

    /// Returns the recipe's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Frr => "frr",
            Self::Bird => "bird",
            Self::NginxVideo => "nginx-video",
            Self::FfmpegClient => "ffmpeg-client",
        }
    }

    /// Returns the default name of the recipe's image, for example `constel/bird`.
    #[must_use]
    pub fn image_name(self) -> String {
        format!("constel/{self}")
    }

    /// Returns the Debian packages to install for the recipe.
    #[must_use]
    pub fn packages(self) -> Vec<&'static str> {
        let words = self.parts().iter().flat_map(|part| part.install.split(' '));
        words.filter(|word| !word.starts_with("--")).collect()
    }

    /// Returns the recipe of an image with such a name and any tag.
    #[must_use]
    pub fn of_image(name: &str) -> Option<Self> {
        let name = name.strip_prefix("constel/")?;
        let name = name.split(':').next().unwrap_or_default();
        name.parse().ok()
    }

    fn parts(self) -> &'static [PackageFiles] {
        const BASE: PackageFiles = PackageFiles {
            package: "busybox-static",
            take: &["usr/bin/busybox"],
            install: "busybox-static",
        };
        match self {
            Self::Base => &[BASE],
            Self::Frr => &[
                BASE,
                PackageFiles {
                    package: "frr",
                    take: &["usr/lib/frr/", "usr/bin/vtysh", "usr/share/yang/"],
                    install: "frr",
                },
                // Without this file vtysh cannot configure the daemons.
                PackageFiles {
                    package: "libpam-modules",
                    take: &["/security/pam_permit.so"],
                    install: "libpam-modules",
                },
            ],
            Self::Bird => &[
                BASE,
                PackageFiles {
                    package: "bird2",
                    take: &["usr/sbin/"],
                    install: "bird2",
                },
            ],
            Self::NginxVideo => &[
                BASE,
                PackageFiles {
                    package: "nginx",
                    take: &["usr/sbin/nginx"],
                    install: "nginx-light",
                },
            ],
            Self::FfmpegClient => &[
                BASE,
                PackageFiles {
                    package: "ffmpeg",
                    take: &["usr/bin/ffmpeg", "usr/bin/ffprobe"],
                    install: "--no-install-recommends ffmpeg",
                },
            ],
        }
    }

    /// Returns the image's default command.
    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Base => &["/bin/sh"],
            Self::Frr => &["/usr/lib/frr/zebra"],
            Self::Bird => &[
                "/usr/sbin/bird",
                "-f",
                "-c",
                "/run/bird.conf",
                "-s",
                "/run/bird.ctl",
            ],
            Self::NginxVideo => &["/usr/sbin/nginx"],
            Self::FfmpegClient => &["/usr/bin/ffmpeg", "-version"],
        }
    }

    /// Adds files that no package has.
    fn own_files(self, files: &mut Files) {
        match self {
            Self::Base | Self::FfmpegClient | Self::Bird => {}
            Self::Frr => {
                for folder in ["etc/frr", "var/log/frr", "var/tmp/frr"] {
                    files.add(folder, Item::Folder(0o775));
                }
                let text = b"service integrated-vtysh-config\n".to_vec();
                files.add("etc/frr/vtysh.conf", Item::Made(text));
                let anybody = b"auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n";
                files.add("etc/pam.d/frr", Item::Made(anybody.to_vec()));
            }
            Self::NginxVideo => {
                for folder in ["var/lib/nginx", "var/log/nginx"] {
                    files.add(folder, Item::Folder(0o755));
                }
                files.add("etc/nginx/nginx.conf", Item::Made(NGINX.into()));
                files.add("srv/www/video.y4m", Item::Made(video::y4m()));
                let index = b"<video src=video.y4m>\n".to_vec();
                files.add("srv/www/index.html", Item::Made(index));
            }
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Recipe {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let found = Self::ALL.into_iter().find(|recipe| recipe.as_str() == text);
        found.ok_or_else(|| Fault::NoRecipe {
            name: crate::image::error::shown(text.as_bytes()),
            all: Self::ALL.map(Recipe::as_str).join(", "),
        })
    }
}

const NGINX: &str = "\
daemon off;
user nobody nogroup;
worker_processes 1;
pid /run/nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
  types { text/html html; video/x-yuv4mpeg y4m; }
  access_log /dev/stdout;
  sendfile on;
  server {
    listen 80;
    listen [::]:80;
    root /srv/www;
  }
}
";

/// Accounts of every recipe, as Debian's base has them.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
frr:x:92:92:FRRouting:/nonexistent:/usr/sbin/nologin
bird:x:93:93:BIRD:/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
const GROUP: &str = "root:x:0:
daemon:x:1:
tty:x:5:
www-data:x:33:
frrvty:x:91:frr
frr:x:92:
bird:x:93:
nogroup:x:65534:
";

/// Applets of busybox that get a link: those of Debian's busybox that are useful in a node.
const APPLETS: &str = "[ arp arping ash awk base64 basename bunzip2 bzcat cat chgrp chmod chown chroot clear cmp cp cut date dd df \
    diff dirname dmesg dnsdomainname du echo egrep env expand expr factor fallocate false fgrep find fold free ftpget getopt grep \
    groups gunzip gzip head hexdump hostid hostname httpd id ifconfig ip ipcalc kill killall less link ln logger ls md5sum mkdir \
    mkfifo mknod mktemp more mount mv nc netstat nice nl nohup nproc nslookup od paste patch pidof ping ping6 printf ps pwd readlink \
    realpath renice reset rev rm rmdir route run-parts sed seq setsid sh sha1sum sha256sum sha512sum shuf sleep sort stat strings \
    stty sync sysctl tac tail tar taskset tee telnet test tftp time timeout top touch tr traceroute traceroute6 true truncate ts \
    tty umount uname unexpand uniq unlink unxz unzip uptime usleep uudecode uuencode vi watch wc wget which who whoami xargs xxd \
    xz xzcat yes zcat";

/// Assembles an image from the packages of the system below `root`.
pub(crate) fn find(recipe: Recipe, root: &Path, context: &Context<'_>) -> Result<Found, Fault> {
    let packages = Packages::of(root)?;
    let missing: Vec<&str> = recipe
        .parts()
        .iter()
        .filter(|part| packages.version(part.package).is_none())
        .map(|part| part.install)
        .collect();
    if !missing.is_empty() {
        return Err(Fault::NotInstalled(missing.join(" ")));
    }
    let mut files = Files::new(root);
    skeleton(&mut files);
    for part in recipe.parts() {
        let paths = packages.files(part.package)?;
        let taken = |path: &&String| {
            let name = in_image(path);
            part.take.iter().any(|take| match take.starts_with('/') {
                true => name.ends_with(take),
                false => name.starts_with(take),
            })
        };
        let mut taken = paths.iter().filter(taken).peekable();
        if taken.peek().is_none() {
            return Err(damaged(part));
        }
        for path in taken {
            let full = root.join(path.trim_start_matches('/'));
            let found = std::fs::symlink_metadata(&full);
            let found = found.map_err(|_| damaged(part))?;
            if !found.is_dir() {
                files.add_host(path)?;
            }
        }
    }
    recipe.own_files(&mut files);
    let mut spool = BufWriter::new(spool_file(context)?);
    context.progress.step(&Step::Reading {
        what: "the packages",
        bytes: 0,
    });
    files.pack(&mut spool)?;
    let spooling = || Fault::io("spool the layer");
    let mut spool = spool.into_inner().map_err(|e| spooling()(e.into_error()))?;
    spool.seek(SeekFrom::Start(0)).map_err(spooling())?;
    let mut read = Digesting::new(&spool);
    std::io::copy(&mut read, &mut std::io::sink()).map_err(spooling())?;
    let (_, diff_id, size) = read.finish();
    let (owners, of_none) = packages.owners(&files.of_host())?;
    let owners: Vec<String> = owners.iter().map(|(p, v)| format!("{p}={v}")).collect();
    let mut labels = json!({
        "org.constel.recipe": recipe.as_str(),
        "org.constel.packages": owners.join(" "),
    });
    if !of_none.is_empty() {
        let of_none: Vec<String> = of_none.iter().map(|path| format!("/{path}")).collect();
        labels["org.constel.of-no-package"] = json!(of_none.join(" "));
    }
    let config = json!({
        "architecture": context.platform.architecture,
        "os": context.platform.os,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/frr"],
            "Cmd": recipe.command(),
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    });
    Ok(Found {
        names: vec![recipe.image_name()],
        manifest: None,
        config: config.to_string().into_bytes(),
        layers: vec![Blob {
            name: "the packages".to_owned(),
            digest: None,
            size: Some(size),
        }],
        from: Box::new(OneFile(spool)),
    })
}

/// Returns the fault for a recorded package whose needed files are missing.
fn damaged(part: &PackageFiles) -> Fault {
    Fault::NotInstalled(format!("--reinstall {}", part.package))
}

/// Adds the common files of every image: folders, accounts and busybox's links.
fn skeleton(files: &mut Files) {
    for (folder, mode) in [
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("root", 0o700),
        ("run", 0o755),
        ("proc", 0o755),
        ("sys", 0o755),
        ("dev", 0o755),
        ("etc", 0o755),
        ("usr/bin", 0o755),
        ("usr/sbin", 0o755),
        ("usr/lib", 0o755),
        ("usr/lib64", 0o755),
        ("var/log", 0o755),
        ("var/lib", 0o755),
    ] {
        files.add(folder, Item::Folder(mode));
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/sbin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("var/run", "/run"),
    ] {
        files.add(link, Item::Link(target.to_owned()));
    }
    for (path, text) in [
        ("etc/passwd", PASSWD),
        ("etc/group", GROUP),
        ("etc/nsswitch.conf", "hosts: files dns\n"),
        ("etc/hosts", ""),
        ("etc/resolv.conf", ""),
    ] {
        files.add(path, Item::Made(text.into()));
    }
    for applet in APPLETS.split_whitespace() {
        files.add(
            &format!("usr/bin/{applet}"),
            Item::Link("busybox".to_owned()),
        );
    }
}

#[cfg(test)]
mod tests;
