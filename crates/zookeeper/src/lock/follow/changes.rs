//! Takes in what watches have told: reads what came or was written, and drops what went.

use crate::error::ClientError;
use crate::lock::follow::model::Model;
use crate::lock::follow::path_scheme::Place;
use crate::lock::follow::pending::{Change, Changes};
use crate::lock::follow::reading::Reader;
use crate::lock::follow::snapshot::{fill_sites, open_sites, read_spots};

/// Takes in changes. What happens meanwhile comes with the next ones.
pub(super) async fn take_in(reader: &mut Reader, model: &mut Model, changes: Changes) -> Result<(), ClientError> {
    let scheme = model.scheme().clone();
    let (mut sites, mut gone, mut nodes_of_contenders) = (Vec::new(), Vec::new(), Vec::new());
    for (path, change) in changes {
        for place in scheme.places(&path) {
            match (place, change) {
                (Place::Site(site), Change::Deleted) => gone.push(site),
                (Place::Site(site), Change::Created) => sites.push(site),
                (Place::Site(site), Change::Written) if model.is_named_by_its_data(&site) => sites.push(site),
                // The value of a queue is not shown.
                (Place::Site(_), Change::Written) => {}
                (Place::ContenderNode(contender_node), Change::Deleted) => model.remove(&contender_node),
                (Place::ContenderNode(contender_node), _) => nodes_of_contenders.push(contender_node),
            }
        }
    }
    // After their contenders, which know by them whose they were.
    gone.iter().for_each(|site| model.forget(site));
    let opened = open_sites(reader, model, &sites).await?;
    fill_sites(reader, model, opened).await?;
    let named = nodes_of_contenders
        .into_iter()
        .filter_map(|contender_node| model.contender_at(&contender_node).map(|contender| (contender_node, contender)));
    let named: Vec<_> = named.collect();
    read_spots(reader, model, &named).await
}
