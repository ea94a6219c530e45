//! `constel results plot`, and the files of pictures.

use std::fs;
use std::path::{Path, PathBuf};

use constel_control::Error;
use constel_control::picture::{Format, Look, encode, styled};
use constel_control::results::{self, Picture, pictures_of_sweep};

use super::one;
use crate::args::{PictureFormat, PictureLook, PlotRun, Quantity};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Plots the flows with samples, one of them, interfaces, used resources, or the figures of a sweep; prints the names of the files.
pub(super) fn run(args: &PlotRun) -> Outcome {
    let files = Files::of(&args.look)?;
    if let Some((folder, pictures)) = pictures_of_sweep(&args.run)? {
        if args.flow.is_some() || args.ports || args.usage || args.only.is_some() {
            return Err(Failure::Usage(format!(
                "{} is a sweep: all its figures are drawn; leave out FLOW, --ports, --usage and --only",
                args.run.display()
            )));
        }
        return files.draw_all(&folder, &pictures, false);
    }
    let run = one(&args.run)?;
    if args.ports {
        let own = run.dir().join("interfaces");
        let picture = run.ports_picture()?.svg(&files.look);
        return files.draw(&picture, &own, args.out.as_deref());
    }
    if args.usage {
        let own = run.dir().join("usage");
        let picture = run.usage_picture()?.svg(&files.look);
        return files.draw(&picture, &own, args.out.as_deref());
    }
    let flows = match &args.flow {
        Some(flow) => vec![flow.clone()],
        None => run.flows_with_samples(),
    };
    let only = args.only.map(|quantity| match quantity {
        Quantity::RoundTrip => results::Quantity::RoundTrip,
        Quantity::OneWay => results::Quantity::OneWay,
        Quantity::Throughput => results::Quantity::Throughput,
    });
    for flow in flows {
        let picture = run.picture(&flow, only)?;
        if picture.panels.is_empty() && args.flow.is_some() {
            return Err(Failure::Usage(format!(
                "flow {flow} has no samples of this quantity"
            )));
        }
        if !picture.panels.is_empty() {
            let picture = picture.svg(&files.look);
            files.draw(&picture, &run.picture_stem(&flow), args.out.as_deref())?;
        }
    }
    Ok(Exit::Done)
}

/// The format and the look of files of pictures.
pub(super) struct Files {
    look: Look,
    format: Option<Format>,
}

impl Files {
    /// Reads the arguments and the style file.
    pub(super) fn of(args: &PictureLook) -> Result<Self, Error> {
        let mut look = styled(args.style.as_deref())?;
        if let Some(width) = &args.width {
            look.width = width.clone();
        }
        look.title = !args.no_title;
        let format = args.format.map(|format| match format {
            PictureFormat::Svg => Format::Svg,
            PictureFormat::Pdf => Format::Pdf,
            PictureFormat::Png => Format::Png,
        });
        Ok(Self { look, format })
    }

    /// Draws pictures of repeats into a folder, which is made, and prints their paths unless `quiet`.
    pub(super) fn draw_all(&self, folder: &Path, pictures: &[Picture], quiet: bool) -> Outcome {
        fs::create_dir_all(folder).map_err(|source| Error::Unwritable {
            path: folder.to_owned(),
            source,
        })?;
        for picture in pictures {
            let svg = picture.group.svg(&self.look);
            let path = self.write(&svg, &folder.join(&picture.stem), None)?;
            if !quiet {
                output::text(&format!("{}\n", path.display()))?;
            }
        }
        Ok(Exit::Done)
    }

    /// Writes a picture, and prints its path: `out`, or the stem with the ending of the format.
    fn draw(&self, svg: &str, stem: &Path, out: Option<&Path>) -> Outcome {
        let path = self.write(svg, stem, out)?;
        output::text(&format!("{}\n", path.display()))?;
        Ok(Exit::Done)
    }

    fn write(&self, svg: &str, stem: &Path, out: Option<&Path>) -> Result<PathBuf, Error> {
        let of_file = || out.and_then(Format::of_file);
        let format = self.format.or_else(of_file).unwrap_or(Format::Svg);
        let path = out.map_or_else(|| with_ending(stem, format), Path::to_owned);
        let bytes = encode(svg, format, &self.look)?;
        fs::write(&path, bytes).map_err(|source| Error::Unwritable {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

/// Adds the ending. A name may have a dot, so that an ending is not replaced.
fn with_ending(stem: &Path, format: Format) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(format.extension());
    name.into()
}
