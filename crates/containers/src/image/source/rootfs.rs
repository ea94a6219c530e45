//! Root file systems without documents: an image of one layer, for this machine, without a default command.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::found::{self, Blob, Blobs, Context, Found};
use super::pack;
use crate::image::compression::{Bound, Decompressed};
use crate::image::digest::{Digest, Digesting};
use crate::image::error::Fault;
use crate::image::progress::Step;

/// Makes an image from a tar archive, compressed or not.
pub(super) fn of_tar(mut file: File, stem: &str, context: &Context<'_>) -> Result<Found, Fault> {
    // The digest is only known after reading the archive.
    let bound = Bound::of_layer(context.limits);
    let mut plain = Digesting::new(Decompressed::new(&file, bound)?);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match plain.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Fault::io("read it")(error)),
        }
        let bytes = plain.count();
        let what = "the archive";
        context.progress.step(&Step::Reading { what, bytes });
    }
    let (_, diff_id, _) = plain.finish();
    file.seek(SeekFrom::Start(0))
        .map_err(Fault::io("read it"))?;
    image(file, diff_id, stem, context)
}

/// Makes an image from a folder.
pub(super) fn of_folder(folder: &Path, context: &Context<'_>) -> Result<Found, Fault> {
    let packed = pack::folder(folder, context)?;
    of_tar(packed, &found::stem(folder), context)
}

fn image(file: File, diff_id: Digest, stem: &str, context: &Context<'_>) -> Result<Found, Fault> {
    let config = serde_json::json!({
        "architecture": context.platform.architecture,
        "os": context.platform.os,
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    });
    Ok(Found {
        names: vec![stem.to_owned()],
        manifest: None,
        config: config.to_string().into_bytes(),
        layers: vec![Blob {
            name: "the archive".to_owned(),
            digest: None,
            size: None,
        }],
        from: Box::new(OneFile(file)),
    })
}

/// A layer in a file.
struct OneFile(File);

impl Blobs for OneFile {
    fn open(&self, _: &Blob) -> Result<Box<dyn Read>, Fault> {
        let mut file = self.0.try_clone().map_err(Fault::io("read it"))?;
        file.seek(SeekFrom::Start(0))
            .map_err(Fault::io("read it"))?;
        Ok(Box::new(file))
    }
}
