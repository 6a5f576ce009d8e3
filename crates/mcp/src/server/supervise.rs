//! Watching one live connection: its end, its idleness, its changed list of tools.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};
use rmcp::service::Peer;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::Connection;
use super::instance::Instance;
use super::listing::list_tools;
use super::manifest::Manifest;
use super::routes::Routes;
use super::start::{Started, masked};
use super::variant::Variant;

/// Several changes within this time are one.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a changed list may take to be read.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);
/// How long the service loop may take to end.
const LOOP_LIMIT: Duration = Duration::from_secs(3);

/// Keeps watch until the connection has ended, then makes sure that what it ran on is gone.
pub async fn supervise(instance: Arc<Instance>, started: Started) {
    let Started { connection, running } = started;
    let variant = Arc::clone(&instance.variant);
    let idle = variant.config.limits.idle_timeout;
    let mut look_again = Instant::now() + idle;
    let looping = running.waiting();
    tokio::pin!(looping);
    let listening = listen(&connection.peer, &connection.routes);
    tokio::pin!(listening);
    let mut loop_ended = false;
    let how = loop {
        tokio::select! {
            _ = &mut looping => {
                loop_ended = true;
                break None;
            }
            how = connection.wire.ended() => break Some(how),
            () = connection.gone.cancelled() => break None,
            () = variant.shutdown.cancelled() => {
                connection.orderly.store(true, Ordering::Relaxed);
                break None;
            }
            () = sleep_until(look_again) => match connection.close_if_idle(idle) {
                Ok(()) => break None,
                Err(later) => look_again = later,
            },
            () = connection.routes.list_changed.notified() => refresh(&variant, &connection).await,
            () = &mut listening => {}
        }
    };
    connection.close();
    instance.ended(&connection);
    connection.loop_end.cancel();
    connection.wire.end().await;
    if !loop_ended && timeout(LOOP_LIMIT, &mut looping).await.is_err() {
        tracing::warn!(server = %variant.config.name, "the connection of a server has not ended within its limit");
    }
    if !connection.orderly.load(Ordering::Relaxed) {
        instance.explain(&explanation(&variant, &connection, how).await);
    }
}

async fn explanation(variant: &Variant, connection: &Connection, how: Option<String>) -> String {
    let how = match how {
        Some(how) => how,
        None => connection.how_it_ended(Duration::from_millis(200)).await,
    };
    let mut text = format!("server '{}' ended: {how}", variant.config.name);
    if connection.wire.report().flooded {
        text.push_str("; it wrote too much to stdout that is no protocol");
    }
    let tail = connection.wire.last_words().await;
    if !tail.is_empty() {
        text.push_str("; its stderr ends with:\n");
        text.push_str(&tail);
    }
    text
}

/// Reads the list again; what cannot be read leaves the old one in place.
async fn refresh(variant: &Variant, connection: &Connection) {
    sleep(SETTLE).await;
    let listed = timeout(REFRESH_LIMIT, list_tools(&connection.peer)).await;
    match (listed, variant.manifest()) {
        (Ok(Ok(listing)), Some(old)) => {
            let mut manifest = Manifest::clone(&old);
            manifest.tools = listing.tools;
            manifest.dropped = masked(variant, listing.dropped);
            variant.publish(manifest).await;
        }
        (Ok(Err(error)), _) => {
            tracing::warn!(server = %variant.config.name, %error, "a changed list of tools could not be read");
        }
        (Ok(Ok(_)), None) => {}
        (Err(_), _) => {
            tracing::warn!(server = %variant.config.name, "a changed list of tools was not read in time")
        }
    }
}

/// In the stateless revision changes are told only to who asks for them. Never returns.
async fn listen(peer: &Peer<RoleClient>, routes: &Routes) {
    let info = peer.peer_info();
    let wanted = info.is_some_and(|info| {
        info.protocol_version >= ProtocolVersion::V_2026_07_28
            && info
                .capabilities
                .tools
                .as_ref()
                .is_some_and(|tools| tools.list_changed == Some(true))
    });
    if wanted {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                while let Ok(Some(notification)) = subscription.next().await {
                    if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                        routes.list_changed.notify_one();
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the server does not tell about changes"),
        }
    }
    std::future::pending().await
}
