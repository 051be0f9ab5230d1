//! SQL over all cases: what may be asked, and with how much memory.
//!
//! The engine has five tables and functions of values. It has no readers and writers of files, no table functions but `generate_series` and `range`,
//! and writes nothing that does not fit memory to a disk: what it would write is clear text.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_table::all_default_table_functions;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Ast;

use crate::answer::Answer;
use crate::error::CasesError;
use crate::file::{Files, SegmentFile};
use crate::limits::{LONGEST_QUESTION, MOST_MEMORY, MOST_PARTITIONS};
use crate::scan::AllFiles;
use crate::schema::Table;

/// All cases, to be asked.
pub struct Cases {
    context: SessionContext,
}

impl std::fmt::Debug for Cases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cases")
    }
}

/// A question that was understood and is allowed.
#[derive(Debug)]
pub struct Question {
    statement: Statement,
    /// Which tables it reads.
    pub tables: BTreeSet<Table>,
}

impl Cases {
    /// Of these files.
    ///
    /// # Errors
    /// The engine does not start.
    pub fn of(files: &Arc<dyn Files>, of_tables: &[(Table, SegmentFile)]) -> Result<Self, CasesError> {
        let failed = |error| CasesError::of_engine(&error);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let config = SessionConfig::new()
            .with_target_partitions(processors.min(MOST_PARTITIONS))
            .with_default_catalog_and_schema("lab", "public")
            .with_information_schema(true);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(MOST_MEMORY, 1.0)
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .build_arc()
            .map_err(failed)?;
        let functions = all_default_table_functions();
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_expr_planners(SessionStateDefaults::default_expr_planners())
            .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
            .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
            .with_window_functions(SessionStateDefaults::default_window_functions())
            .with_table_function_list(functions)
            .build();
        let context = SessionContext::new_with_state(state);
        for table in Table::ALL {
            let segments = of_tables.iter().filter(|(of, _)| *of == table).map(|(_, file)| file.clone());
            let provider = AllFiles {
                table,
                schema: table.schema(),
                files: Arc::clone(files),
                segments: segments.collect(),
            };
            context.register_table(table.name(), Arc::new(provider)).map_err(failed)?;
        }
        Ok(Self { context })
    }

    /// Reads a question; nothing is answered yet.
    ///
    /// # Errors
    /// It is not SQL, or would do anything but read.
    pub fn question(&self, sql: &str) -> Result<Question, CasesError> {
        if sql.len() > LONGEST_QUESTION {
            return Err(CasesError::Question { why: format!("it is longer than {LONGEST_QUESTION} bytes") });
        }
        let state = self.context.state();
        let dialect = state.config().options().sql_parser.dialect;
        let statement =
            state.sql_to_statement(sql, &dialect).map_err(|error| CasesError::of_engine(&error))?;
        only_reads(&statement)?;
        let references =
            state.resolve_table_references(&statement).map_err(|error| CasesError::of_engine(&error))?;
        let tables = references.iter().filter_map(|one| Table::named(one.table())).collect();
        Ok(Question { statement, tables })
    }

    /// Begins to answer.
    ///
    /// # Errors
    /// A name is not known, or types do not fit.
    pub async fn answer(&self, question: Question) -> Result<Answer, CasesError> {
        let failed = |error| CasesError::of_engine(&error);
        let plan = self.context.state().statement_to_plan(question.statement).await.map_err(failed)?;
        // Once more, where all of it is resolved: below a `WITH`, an `EXPLAIN`, an `INTO`.
        let nothing_else =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        nothing_else.verify_plan(&plan).map_err(failed)?;
        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
        Ok(Answer::new(frame.execute_stream().await.map_err(failed)?))
    }
}

fn only_reads(statement: &Statement) -> Result<(), CasesError> {
    let mut statement = statement;
    while let Statement::Explain(explain) = statement {
        statement = &explain.statement;
    }
    let refused = |what: &dyn std::fmt::Display| {
        let what = what.to_string().split_whitespace().next().unwrap_or_default().to_owned();
        Err(CasesError::OnlyReads { what })
    };
    match statement {
        Statement::Statement(ast) => match ast.as_ref() {
            Ast::Query(_) | Ast::ShowTables { .. } | Ast::ShowColumns { .. } | Ast::ExplainTable { .. } => {
                Ok(())
            }
            Ast::Explain { statement: inner, .. } if matches!(inner.as_ref(), Ast::Query(_)) => Ok(()),
            other => refused(other),
        },
        other => refused(other),
    }
}
