//! The output of users' software: comma-separated values without quotes, below a line of column names.

use std::collections::BTreeMap;
use std::io::BufRead;

use constel_measure::flows::line_of;

/// Returns the values of the given columns.
///
/// Lines with another number of values than the first are skipped, since the last line may be cut off. A repeated line of
/// names is skipped too, since a restarted program prints it again.
///
/// # Errors
/// A message if a column is missing, or the error of the operating system.
pub(crate) fn columns<const N: usize>(
    file: impl BufRead,
    names: [&str; N],
) -> Result<Vec<[String; N]>, String> {
    let rows = rows(file, &names)?.into_iter();
    // Each row has as many cells as there are names.
    Ok(rows.filter_map(|row| row.try_into().ok()).collect())
}

/// Returns any number of columns: each row has one cell for each name.
///
/// # Errors
/// As [`columns`].
pub(crate) fn rows(mut file: impl BufRead, names: &[&str]) -> Result<Vec<Vec<String>>, String> {
    let mut line = Vec::new();
    let mut next = || -> Result<Option<String>, String> {
        line.clear();
        let read = line_of(&mut file, &mut line).map_err(|e| e.to_string())?;
        Ok((read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
    };
    let head = next()?.unwrap_or_default();
    let heads: Vec<&str> = head.split(',').map(str::trim).collect();
    let place = |name: &&str| {
        let found = heads.iter().position(|head| head == name);
        found.ok_or_else(|| format!("it printed no column `{name}`"))
    };
    let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    while let Some(line) = next()? {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() == heads.len() && cells != heads {
            let row = places.iter().map(|&place| cells[place].to_owned());
            rows.push(row.collect());
        }
    }
    Ok(rows)
}

/// Returns whether an output has a column of this name, as statements about the output of programs read it. For fuzz tests.
///
/// # Panics
/// When a row has another number of cells than was requested.
#[must_use]
pub fn reads_columns(output: &[u8], name: &str) -> bool {
    let read = rows(output, &[name, name]);
    let all = read.iter().flatten();
    all.for_each(|row| assert_eq!(row.len(), 2, "{row:?}"));
    read.is_ok()
}

/// The agreement of several outputs: the number of keys for which all values are the same, the number of keys for which all
/// outputs have a value, and the number of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agreement {
    pub(crate) same: usize,
    pub(crate) complete: usize,
    pub(crate) all: usize,
}

/// Compares the outputs by key. If an output has several values for a key, the last one counts.
pub(crate) fn agreement(each: &[Vec<[String; 2]>]) -> Agreement {
    let mut by_key: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    for (who, rows) in each.iter().enumerate() {
        for [key, value] in rows {
            by_key.entry(key).or_default().insert(who, value);
        }
    }
    let mut found = Agreement {
        all: by_key.len(),
        ..Agreement::default()
    };
    for values in by_key.values().filter(|v| v.len() == each.len()) {
        found.complete += 1;
        let mut values = values.values();
        let first = values.next();
        found.same += usize::from(values.all(|value| Some(value) == first));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_compared_where_everybody_has_one() {
        let said = |text: &str| columns(text.as_bytes(), ["cycle", "plan"]).unwrap();
        let one = said("cycle,craft,plan\n1,0,ab\n2,0,cd\ncycle,craft,plan\n3,0,ef\n4,0");
        let two = said("cycle,craft,plan\r\n1,1,ab\r\n2,1,xx\r\n5,1,ab\r\n");
        assert_eq!(one.len(), 3);
        let found = agreement(&[one, two]);
        let expected = Agreement {
            same: 1,
            complete: 2,
            all: 4,
        };
        assert_eq!(found, expected);
        let missing = columns("a,b\n1,2\n".as_bytes(), ["c"]).unwrap_err();
        assert_eq!(missing, "it printed no column `c`");
        assert!(columns(b"".as_slice(), ["c"]).is_err());
    }
}
