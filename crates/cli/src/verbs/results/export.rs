//! `constel results export`: tables of a run for other tools.

use constel_control::Error;
use constel_control::results::{Exported, Format, export, tables};

use super::one;
use crate::args::{ExportRun, TableFormat};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Exports tables; exits with 2 for a table that the run does not have.
pub(super) fn run(args: &ExportRun) -> Outcome {
    let run = one(&args.run)?;
    let wanted = match &args.table {
        Some(table) => vec![table.clone()],
        None => tables(&run),
    };
    let format = match args.format {
        TableFormat::Parquet => Format::Parquet,
        TableFormat::Csv => Format::Csv,
        TableFormat::Influx => Format::Influx,
    };
    let folder = args.out.clone().unwrap_or_else(|| run.dir().join("tables"));
    std::fs::create_dir_all(&folder).map_err(|source| Error::Unwritable {
        path: folder.clone(),
        source,
    })?;
    let mut written = Vec::new();
    for table in wanted {
        let file = folder.join(format!("{table}.{}", format.extension()));
        written.push(export(&run, &table, &file, format)?);
    }
    if args.json {
        output::json(&written)?;
    } else {
        let rows: Vec<Vec<String>> = written.iter().map(cells).collect();
        output::text(&output::table(
            &["TABLE", "ROWS", "COLUMNS", "BYTES", "FILE"],
            &rows,
        ))?;
    }
    Ok(Exit::Done)
}

fn cells(one: &Exported) -> Vec<String> {
    vec![
        one.table.clone(),
        one.rows.to_string(),
        one.columns.len().to_string(),
        one.bytes.to_string(),
        one.file.display().to_string(),
    ]
}
