//! Effects and counters of edges: a row for each change of an edge against its previous row.

use std::path::Path;

use constel_scenario::model::Sampled;

use super::super::ports::{Column as Counted, index, metric_file, metrics};
use super::columns::{CHUNK_ROWS, Column, Kind, Source, Values};
use crate::error::Error;

pub(super) struct Edges {
    columns: Vec<Column>,
    /// Ports by number, as `NODE/PORT`.
    ports: Vec<String>,
    /// Instants, both ends, metrics.
    files: Vec<Counted>,
}

impl Edges {
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let ports = index(folder)?.into_iter();
        let metrics = metrics(folder, Sampled::Edges);
        let own = [
            ("t_ns", Kind::Integer),
            ("from", Kind::Text),
            ("to", Kind::Text),
        ];
        let own = own.iter().map(|(name, kind)| Column::new(name, *kind));
        let counted = metrics.iter().map(|name| Column::new(name, Kind::Integer));
        let files = ["t_ns.i64", "from.u64", "to.u64"]
            .map(str::to_owned)
            .into_iter();
        let files = files.chain(metrics.iter().map(|name| metric_file(name)));
        Ok(Self {
            columns: own.chain(counted).collect(),
            ports: ports.map(|(node, port)| format!("{node}/{port}")).collect(),
            files: files
                .map(|name| Counted::open(folder.join(name)))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The numbers of the next row; `None` at the end, or where the run ended in the middle of one.
    fn row(&mut self) -> Result<Option<Vec<u64>>, Error> {
        let mut row = vec![0; self.files.len()];
        for (file, number) in self.files.iter_mut().zip(&mut row) {
            if !file.next(std::slice::from_mut(number))? {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }
}

impl Source for Edges {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
        let mut values: Vec<Values> = self.columns.iter().map(|c| Values::new(c.kind)).collect();
        let mut rows = 0;
        while rows < CHUNK_ROWS {
            let Some(row) = self.row()? else { break };
            for (values, number) in values.iter_mut().zip(row) {
                match values {
                    // Counts and times are below 2^63.
                    Values::Integer(numbers) => {
                        numbers.push(Some(i64::try_from(number).unwrap_or(i64::MAX)));
                    }
                    Values::Text(ports) => ports.push(self.ports.get(number as usize).cloned()),
                    Values::Float(_) => {}
                }
            }
            rows += 1;
        }
        Ok((rows > 0).then_some(values))
    }
}
