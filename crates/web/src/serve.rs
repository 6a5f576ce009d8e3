//! Listening and serving, with an end that is bounded.

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use pentad_mcp::{FaceEnd, HttpFace, HttpLimits, LazyVerbs};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::face::{Access, Face, MAX_STREAMS, Shared};
use crate::hosts::Hosts;
use crate::router::router;

/// How long cancelled requests may take to answer.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why HTTP is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something else listens there.
    #[error(
        "port {port} of {address} is in use, perhaps by another pentad up (pentad stop ends it)\nNext: ss -ltnp 'sport = :{port}' shows who holds it; --port 0 takes any free one",
        port = .address.port(),
        address = .address.ip()
    )]
    InUse {
        /// Where.
        address: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error("{address} cannot be listened at: {source}\nNext: choose another port or bind address")]
    NotListening {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Other machines could reach it, and nobody configured who may.
    #[error(
        "{address} is reachable from other machines and no token is configured\nNext: add token = \"${{secret:http}}\" to [http] in config.toml and run pentad secret set http, or bind 127.0.0.1"
    )]
    Exposed {
        /// Where.
        address: SocketAddr,
    },
    /// Serving ended with a fault.
    #[error("serving HTTP failed: {0}")]
    Failed(#[from] io::Error),
}

/// Listens at an address; port 0 takes any.
///
/// # Errors
/// Fails when the port is in use or the system does not let us.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { address },
            _ => ServeError::NotListening { address, source },
        })
}

/// Serves until `shutdown`: then no new connections, streams end, requests get `face.drain` to finish, and what still
/// runs is cancelled.
///
/// # Errors
/// Refuses to serve other machines without a configured token; fails when accepting fails.
pub async fn serve(listener: TcpListener, face: Face, shutdown: CancellationToken) -> Result<(), ServeError> {
    let local = listener.local_addr()?;
    let may_be_reached = match &face.access {
        Access::Tokens(tokens) => tokens.is_configured(),
        Access::InsecureLoopback => false,
    };
    if !local.ip().is_loopback() && !may_be_reached {
        return Err(ServeError::Exposed { address: local });
    }
    let hard_end = CancellationToken::new();
    let drain = face.drain;
    let limits = HttpLimits {
        body_bytes: usize::try_from(face.body_bytes).unwrap_or(usize::MAX),
        ..HttpLimits::default()
    };
    let verbs = LazyVerbs::ready(Arc::clone(&face.verbs));
    let mcp = HttpFace::new(verbs, face.state_key.clone(), limits);
    let shared = Arc::new(Shared {
        hosts: Hosts::new(local, &face.hosts),
        mcp: mcp.clone(),
        face,
        closing: shutdown.clone(),
        hard_end: hard_end.clone(),
        streams: Arc::new(Semaphore::new(MAX_STREAMS)),
    });
    // An answer of several writes must not wait for the client's acknowledgement of the first.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its small writes back");
        }
    });
    let server = axum::serve(listener, router(shared))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    tokio::pin!(server);
    let drained = tokio::select! {
        ended = &mut server => Ok(ended),
        () = shutdown.cancelled() => {
            mcp.closing();
            tokio::time::timeout(drain, &mut server).await
        }
    };
    if let Ok(ended) = drained {
        // A session's call goes on without a connection.
        end_calls(&mcp).await;
        mcp.end().await;
        return ended.map_err(ServeError::from);
    }
    hard_end.cancel();
    let (ended, ()) = tokio::join!(tokio::time::timeout(LAST_WORDS, &mut server), end_calls(&mcp));
    mcp.end().await;
    match ended {
        Ok(ended) => ended.map_err(ServeError::from),
        Err(_) => {
            tracing::warn!(%local, "connections were still open at the end");
            Ok(())
        }
    }
}

async fn end_calls(mcp: &HttpFace) {
    match mcp.end_calls().await {
        FaceEnd::Clean => {}
        FaceEnd::Abandoned => tracing::warn!("a cancelled call did not end in time"),
    }
}
