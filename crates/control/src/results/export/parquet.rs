//! Tables as Parquet.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use super::About;
use super::columns::{Column, Failed, Kind, Source, Values};

/// Version of the names and meanings of columns. It increases when one of them changes.
const SCHEMA: &str = "1";

impl From<parquet::errors::ParquetError> for Failed {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Write(std::io::Error::other(error))
    }
}

/// Writes all of it; how many rows.
pub(super) fn write(source: &mut dyn Source, about: &About, out: File) -> Result<u64, Failed> {
    let columns = source.columns().to_vec();
    let fields = columns.iter().map(|column| field(column).map(Arc::new));
    let schema = Type::group_type_builder("constel").with_fields(fields.collect::<Result<_, _>>()?);
    let properties = Arc::new(properties(&columns, about));
    let mut file = SerializedFileWriter::new(out, Arc::new(schema.build()?), properties)?;
    let mut rows = 0;
    while let Some(chunk) = source.next()? {
        rows += chunk[0].len() as u64;
        let mut group = file.next_row_group()?;
        for values in &chunk {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match values {
                Values::Integer(values) => {
                    let (there, levels) = split(values.iter().copied());
                    column
                        .typed::<Int64Type>()
                        .write_batch(&there, Some(&levels), None)?;
                }
                Values::Float(values) => {
                    let (there, levels) = split(values.iter().copied());
                    column
                        .typed::<DoubleType>()
                        .write_batch(&there, Some(&levels), None)?;
                }
                Values::Text(values) => {
                    let bytes = values
                        .iter()
                        .map(|text| text.as_deref().map(ByteArray::from));
                    let (there, levels) = split(bytes);
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&there, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(rows)
}

/// Returns the present values, and for each row whether it has one.
fn split<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}

fn field(column: &Column) -> Result<Type, parquet::errors::ParquetError> {
    let (physical, converted) = match column.kind {
        Kind::Integer => (Physical::INT64, ConvertedType::NONE),
        Kind::Float => (Physical::DOUBLE, ConvertedType::NONE),
        Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(converted)
        .build()
}

fn properties(columns: &[Column], about: &About) -> WriterProperties {
    // Sorted, so that the same table has the same bytes.
    let units: BTreeMap<&str, &str> = columns
        .iter()
        .filter_map(|column| Some((column.name.as_str(), column.unit()?)))
        .collect();
    let said = [
        ("constel.schema", SCHEMA.to_owned()),
        ("constel.table", about.table.clone()),
        ("constel.lab", about.lab.clone()),
        ("constel.seed", about.seed.to_string()),
        ("constel.start_unix_ns", about.start_unix_ns.to_string()),
        ("constel.units", serde_json::json!(units).to_string()),
    ];
    let said = said.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("constel {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(said.to_vec()));
    // Counters and times rise by little.
    for column in columns.iter().filter(|column| column.kind == Kind::Integer) {
        let path = ColumnPath::from(column.name.clone());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    struct Twice(Vec<Column>, Vec<Vec<Values>>);

    impl Source for Twice {
        fn columns(&self) -> &[Column] {
            &self.0
        }
        fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
            Ok(self.1.pop())
        }
    }

    #[test]
    fn what_is_written_is_read_again_with_units() {
        let columns = vec![
            Column::new("t_ns", Kind::Integer),
            Column::new("rtt_us", Kind::Float),
            Column::new("fate", Kind::Text),
        ];
        let chunk = |n: i64| {
            vec![
                Values::Integer(vec![Some(n), Some(n + 1)]),
                Values::Float(vec![Some(0.5), None]),
                Values::Text(vec![None, Some("lost".into())]),
            ]
        };
        let about = About {
            table: "ping".into(),
            lab: "lab".into(),
            seed: 7,
            start_unix_ns: 1,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.parquet");
        let mut source = Twice(columns, vec![chunk(10), chunk(0)]);
        let rows = write(&mut source, &about, File::create(&path).unwrap());
        assert!(matches!(rows, Ok(4)));
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata().clone();
        let said = metadata.key_value_metadata().unwrap();
        let of = |key: &str| {
            said.iter()
                .find(|pair| pair.key == key)
                .unwrap()
                .value
                .clone()
                .unwrap()
        };
        assert_eq!(of("constel.units"), r#"{"rtt_us":"us","t_ns":"ns"}"#);
        assert_eq!(
            (of("constel.schema"), of("constel.seed")),
            ("1".into(), "7".into())
        );
        let shown: Vec<String> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().to_string())
            .collect();
        assert_eq!(
            shown,
            [
                r#"{t_ns: 0, rtt_us: 0.5, fate: null}"#,
                r#"{t_ns: 1, rtt_us: null, fate: "lost"}"#,
                r#"{t_ns: 10, rtt_us: 0.5, fate: null}"#,
                r#"{t_ns: 11, rtt_us: null, fate: "lost"}"#,
            ]
        );
    }
}
