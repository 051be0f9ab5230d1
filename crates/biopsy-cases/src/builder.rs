//! A table while it is made, row by row: each text and number goes through here, so that none gets around the limits.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder,
};

use crate::error::CasesError;
use crate::schema::{Kind, Table};
use crate::text::plain;

/// A field of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Text(&'a str),
    Count(Option<i64>),
    Number(Option<f64>),
    Truth(Option<bool>),
    /// Seconds since 1970.
    Moment(i64),
}

#[derive(Debug)]
enum Values {
    Text(StringBuilder),
    Count(Int64Builder),
    Number(Float64Builder),
    Truth(BooleanBuilder),
    Moment(TimestampMicrosecondBuilder),
}

/// A table while it is made.
#[derive(Debug)]
pub(crate) struct Builder {
    table: Table,
    columns: Vec<(Values, bool)>,
    rows: usize,
}

impl Builder {
    pub(crate) fn new(table: Table) -> Self {
        let values = |kind| match kind {
            Kind::Text => Values::Text(StringBuilder::new()),
            Kind::Count => Values::Count(Int64Builder::new()),
            Kind::Number => Values::Number(Float64Builder::new()),
            Kind::Truth => Values::Truth(BooleanBuilder::new()),
            Kind::Moment => {
                Values::Moment(TimestampMicrosecondBuilder::new().with_data_type(Kind::Moment.data_type()))
            }
        };
        let columns = table.columns().map(|column| (values(column.kind), column.is_optional)).collect();
        Self { table, columns, rows: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row; its fields are those of the table, in order. What is not known is absent, or empty, 0 or false where a column has to have something.
    pub(crate) fn push(&mut self, row: &[Field<'_>]) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.table.name());
        for (at, (values, is_optional)) in self.columns.iter_mut().enumerate() {
            let field = row.get(at).copied();
            match values {
                Values::Text(values) => match field {
                    Some(Field::Text(text)) if !text.is_empty() => values.append_value(plain(text)),
                    _ if *is_optional => values.append_null(),
                    _ => values.append_value(""),
                },
                Values::Count(values) => {
                    let number = if let Some(Field::Count(number)) = field { number } else { None };
                    values.append_option(number.or((!*is_optional).then_some(0)));
                }
                Values::Number(values) => {
                    let number = if let Some(Field::Number(number)) = field { number } else { None };
                    let finite = number.filter(|number| number.is_finite());
                    values.append_option(finite.or((!*is_optional).then_some(0.0)));
                }
                Values::Truth(values) => {
                    let truth = if let Some(Field::Truth(truth)) = field { truth } else { None };
                    values.append_option(truth.or((!*is_optional).then_some(false)));
                }
                Values::Moment(values) => {
                    let seconds = if let Some(Field::Moment(seconds)) = field { seconds } else { 0 };
                    values.append_value(seconds.saturating_mul(1_000_000));
                }
            }
        }
        self.rows += 1;
    }

    pub(crate) fn finish(&mut self) -> Result<RecordBatch, CasesError> {
        self.rows = 0;
        let arrays = self.columns.iter_mut().map(|(values, _)| match values {
            Values::Text(values) => Arc::new(values.finish()) as ArrayRef,
            Values::Count(values) => Arc::new(values.finish()),
            Values::Number(values) => Arc::new(values.finish()),
            Values::Truth(values) => Arc::new(values.finish()),
            Values::Moment(values) => Arc::new(values.finish()),
        });
        Ok(RecordBatch::try_new(self.table.schema(), arrays.collect())?)
    }
}
