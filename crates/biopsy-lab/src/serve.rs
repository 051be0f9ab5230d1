//! The lab at work: calls, analysis, notices, and what is done each minute.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::error::{LabError, in_words};
use crate::notices::{self, Ways};
use crate::people::provider::Provider;
use crate::place::{Lab, now};
use crate::web::Program;
use crate::{delete, derived, intake, web, work};
use biopsy_terminal::out::say;

/// Most bytes of the head of a call, and of a body that are read at once.
const AT_ONCE: usize = 256 << 10;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where.
    pub listen: SocketAddr,
    /// Who is told. `None`: another process sees to it.
    pub ways: Option<Ways>,
    /// Analyses at once.
    pub workers: usize,
    /// The customer's program, for whoever has none.
    pub program: Option<Program>,
    /// Where people log in who have no password here.
    pub provider: Option<Arc<Provider>>,
    /// Longest silence of a caller.
    pub silence: Duration,
    /// Most connections at once; who comes later waits.
    pub connections: usize,
}

/// What is usual for [`Serving::connections`].
pub const CONNECTIONS: usize = 1024;
/// What is usual for [`Serving::silence`]: mobile networks fall silent for a while.
pub const SILENCE: Duration = Duration::from_secs(30);

/// Serves until the process is asked to end; `ready` is told the address.
///
/// # Errors
/// The address is taken, or the database refuses.
pub async fn serve(lab: Lab, serving: &Serving, ready: impl FnOnce(SocketAddr)) -> Result<(), LabError> {
    let listener = TcpListener::bind(serving.listen)
        .await
        .map_err(LabError::io("listen at", serving.listen.to_string()))?;
    let address = listener.local_addr().map_err(LabError::io("listen at", serving.listen.to_string()))?;
    intake::complete::begin_left_over(&lab, 0).await?;
    begin_work(&lab, serving.workers);
    if let Some(ways) = serving.ways.clone() {
        let lab = lab.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = notices::send_waiting(&lab, &ways).await {
                    say(in_words(&error));
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
    let of_minutes = lab.clone();
    tokio::spawn(async move {
        loop {
            if let Err(error) = each_minute(&of_minutes).await {
                say(in_words(&error));
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    });
    let router = intake::router(lab.clone(), serving.silence).merge(web::router(
        lab,
        serving.program.clone(),
        serving.provider.clone(),
    ));
    ready(address);
    accept(listener, router, serving.silence, serving.connections).await;
    Ok(())
}

/// Analyses what arrives, beside whatever else goes on; so many at once. Several processes may do it, each for the same database and storage.
pub fn begin_work(lab: &Lab, workers: usize) {
    for _ in 0..workers {
        let lab = lab.clone();
        tokio::spawn(async move {
            loop {
                match work::do_one(&lab).await {
                    Ok(true) => {
                        if let Err(error) = derived::compact::compact(&lab).await {
                            say(in_words(&error));
                        }
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => say(in_words(&error)),
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
}

async fn each_minute(lab: &Lab) -> Result<(), LabError> {
    notices::watch(lab).await?;
    delete::those_whose_time_is_up(lab).await?;
    derived::segments::sweep(lab).await?;
    intake::complete::begin_left_over(lab, 600).await?;
    // What nobody went on with.
    let left: Vec<(String, String)> = sqlx::query_as(
        "SELECT id, object FROM uploads WHERE state = 'open' AND at < length AND expires <= $1",
    )
    .bind(now())
    .fetch_all(lab.store.pool())
    .await?;
    for (id, object) in left {
        let gone = sqlx::query(
            "UPDATE uploads SET state = 'expired' WHERE id = $1 AND state = 'open' AND expires <= $2",
        )
        .bind(&id)
        .bind(now())
        .execute(lab.store.pool())
        .await?;
        if gone.rows_affected() == 1 {
            lab.storage.remove(&object).await?;
        }
    }
    Ok(())
}

async fn accept(listener: TcpListener, router: Router, silence: Duration, connections: usize) {
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many files, for instance: it passes.
                say(format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            // axum's own loop sets no timer: without one a head may take for ever.
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(silence).max_buf_size(AT_ONCE);
            // A connection that breaks is the other side's business.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
