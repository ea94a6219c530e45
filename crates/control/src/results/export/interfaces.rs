//! Counters of interfaces, or of the resources that nodes use: a row for each instant and interface, or node.

use std::path::Path;

use constel_scenario::model::Sampled;

use super::super::ports::{Column as Counted, index, metric_file, metrics};
use super::columns::{CHUNK_ROWS, Column, Kind, Source, Values};
use crate::error::Error;

pub(super) struct Interfaces {
    columns: Vec<Column>,
    /// Whether the places are interfaces, with ports.
    has_ports: bool,
    /// Node and port of each place.
    places: Vec<(String, String)>,
    times: Counted,
    counters: Vec<Counted>,
}

impl Interfaces {
    pub(super) fn open(folder: &Path, kind: Sampled) -> Result<Self, Error> {
        let has_ports = kind == Sampled::Interfaces;
        let places = index(folder)?;
        let names = metrics(folder, kind);
        let open = |name: &&str| Counted::open(folder.join(metric_file(name)));
        let own = [
            ("t_ns", Kind::Integer),
            ("node", Kind::Text),
            ("port", Kind::Text),
        ];
        let own = own.iter().filter(|(name, _)| has_ports || *name != "port");
        let own = own.map(|(name, kind)| Column::new(name, *kind));
        let counted = names.iter().map(|name| Column::new(name, Kind::Integer));
        Ok(Self {
            columns: own.chain(counted).collect(),
            has_ports,
            places,
            times: Counted::open(folder.join("t_ns.i64"))?,
            counters: names.iter().map(open).collect::<Result<_, _>>()?,
        })
    }
}

impl Source for Interfaces {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
        let (mut times, mut nodes, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        let mut counted = vec![Vec::new(); self.counters.len()];
        let mut t_ns = [0];
        let mut now = vec![0; self.places.len()];
        // Counts and times are below 2^63.
        let whole = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        while times.len() < CHUNK_ROWS && !self.places.is_empty() && self.times.next(&mut t_ns)? {
            let mut whole_instant = true;
            for (column, values) in self.counters.iter_mut().zip(&mut counted) {
                whole_instant &= column.next(&mut now)?;
                values.extend(now.iter().map(|number| whole(*number)));
            }
            if !whole_instant {
                // The run ended in the middle of it.
                counted
                    .iter_mut()
                    .for_each(|values| values.truncate(times.len()));
                break;
            }
            for (node, port) in &self.places {
                times.push(whole(t_ns[0]));
                nodes.push(Some(node.clone()));
                ports.push(Some(port.clone()));
            }
        }
        if times.is_empty() {
            return Ok(None);
        }
        let ports = self.has_ports.then_some(Values::Text(ports));
        let own = [Values::Integer(times), Values::Text(nodes)];
        Ok(Some(
            own.into_iter()
                .chain(ports)
                .chain(counted.into_iter().map(Values::Integer))
                .collect(),
        ))
    }
}
