//! A table as the engine sees it: partitions that read their files one after the other.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::file::{Files, SegmentFile, open};
use crate::schema::Table;

/// Files of a partition that are opened ahead.
const AHEAD: usize = 4;

/// All files of one table.
#[derive(Debug)]
pub(crate) struct AllFiles {
    pub(crate) table: Table,
    pub(crate) schema: SchemaRef,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) segments: Vec<SegmentFile>,
}

#[async_trait]
impl TableProvider for AllFiles {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Row groups are left out by them; what is in the others is looked at again.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let whole = DFSchema::try_from(Arc::clone(&self.schema))?;
        let wanted = match conjunction(filters.to_vec()) {
            // One that row groups cannot be told by leaves none out.
            Some(filter) => {
                let filter = state.create_physical_expr(filter, &whole)?;
                let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema));
                builder.try_build(filter).ok().map(Arc::new)
            }
            None => None,
        };
        let count = state.config().target_partitions().min(self.segments.len()).max(1);
        let partitions = (0..count).map(|at| {
            Arc::new(Partition {
                table: self.table,
                schema: Arc::clone(&schema),
                files: Arc::clone(&self.files),
                segments: self.segments.iter().skip(at).step_by(count).cloned().collect(),
                wanted: wanted.clone(),
            }) as Arc<dyn PartitionStream>
        });
        let plan =
            StreamingTableExec::try_new(Arc::clone(&schema), partitions.collect(), None, [], false, None)?;
        Ok(Arc::new(plan))
    }
}

/// Some files of a table.
#[derive(Debug)]
struct Partition {
    table: Table,
    schema: SchemaRef,
    files: Arc<dyn Files>,
    segments: Vec<SegmentFile>,
    wanted: Option<Arc<PruningPredicate>>,
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, schema, files, wanted) =
            (self.table, Arc::clone(&self.schema), Arc::clone(&self.files), self.wanted.clone());
        let opening = futures_util::stream::iter(self.segments.clone())
            .map(move |file| open(table, Arc::clone(&files), file, Arc::clone(&schema), wanted.clone()));
        let rows = opening.buffered(AHEAD).try_flatten();
        let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
