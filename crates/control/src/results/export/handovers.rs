//! The satellites that served each station over time: a row for each handover.

use constel_api::EventData;

use super::super::Run;
use super::columns::{CHUNK_ROWS, Column, Kind, Source, Values};
use crate::error::Error;

type Row = (i64, String, Option<String>, Option<String>, Option<String>);

pub(super) struct Handovers {
    columns: Vec<Column>,
    rows: std::vec::IntoIter<Row>,
}

impl Handovers {
    /// All of a run.
    ///
    /// # Errors
    /// When its events cannot be read.
    pub(super) fn of(run: &Run) -> Result<Self, Error> {
        let mut rows = Vec::new();
        for event in run.events()? {
            let event = event?;
            let EventData::Handover {
                station,
                from,
                to,
                port,
            } = event.what
            else {
                continue;
            };
            let t_ns = event.t_ns.unwrap_or(0);
            rows.push((t_ns, station, from, to, port));
        }
        let columns = [
            ("t_ns", Kind::Integer),
            ("station", Kind::Text),
            ("from", Kind::Text),
            ("to", Kind::Text),
            ("port", Kind::Text),
        ];
        let columns = columns.iter().map(|(name, kind)| Column::new(name, *kind));
        Ok(Self {
            columns: columns.collect(),
            rows: rows.into_iter(),
        })
    }
}

impl Source for Handovers {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
        let mut times = Vec::new();
        let mut texts = [const { Vec::new() }; 4];
        for (t_ns, station, from, to, port) in self.rows.by_ref().take(CHUNK_ROWS) {
            times.push(Some(t_ns));
            for (texts, text) in texts.iter_mut().zip([Some(station), from, to, port]) {
                texts.push(text);
            }
        }
        if times.is_empty() {
            return Ok(None);
        }
        let times = std::iter::once(Values::Integer(times));
        Ok(Some(times.chain(texts.map(Values::Text)).collect()))
    }
}
