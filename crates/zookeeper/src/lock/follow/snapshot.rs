//! Reads all locks of a scope, or all contenders of some of them.

use std::sync::Arc;

use lockkeeper_core::Contender;
use lockkeeper_zk_proto::message::ErrorCode;

use crate::error::ClientError;
use crate::link::Call;
use crate::lock::follow::ground::{Ground, Site, Spot};
use crate::lock::follow::model::Model;
use crate::lock::follow::reading::{Reader, list, read};
use crate::lock::shown::{Found, Room};

/// Reads all locks of a scope.
///
/// # Errors
///
/// Also if this user may not list the base.
pub(super) async fn snapshot(reader: &mut Reader, ground: &Arc<Ground>) -> Result<Model, ClientError> {
    let mut model = Model::new(ground.clone());
    reader.sync(ground.base()).await?;
    let mut said = reader.ask(&[()], |()| list(ground.base().to_owned()), Call::children).await?;
    let nodes = match said.pop() {
        Some(Err(error)) if error.is(ErrorCode::NoAuth) => return Err(error),
        said => said.and_then(Result::ok).unwrap_or_default(),
    };
    let mut sites: Vec<_> = nodes.into_iter().map(Site::Below).chain(ground.sites_besides()).collect();
    let unnamed: Vec<_> = sites.iter().filter(|site| model.is_named_by_its_data(site)).cloned().collect();
    open_sites(reader, &mut model, &unnamed).await?;
    sites.retain(|site| model.lock_of(site).is_some());
    fill_sites(reader, &mut model, sites).await?;
    Ok(model)
}

/// Reads the nodes of sites; returns those whose contenders must be listed.
pub(super) async fn open_sites(
    reader: &mut Reader,
    model: &mut Model,
    sites: &[Site],
) -> Result<Vec<Site>, ClientError> {
    let ground = model.ground().clone();
    let path_of = |site: &Site| ground.path_of(site, ground.rooms(site)[0]);
    let said = reader.ask(sites, |site| read(path_of(site)), Call::data).await?;
    let mut opened = Vec::new();
    for (site, said) in sites.iter().zip(said) {
        match said {
            Ok((data, _)) => {
                if model.open(site, &data) {
                    opened.push(site.clone());
                }
            }
            Err(error) if error.is(ErrorCode::NoAuth) => model.close(site),
            Err(_) => model.forget(site),
        }
    }
    Ok(opened)
}

/// Lists sites, and reads their contenders.
pub(super) async fn fill_sites(reader: &mut Reader, model: &mut Model, sites: Vec<Site>) -> Result<(), ClientError> {
    let ground = model.ground().clone();
    let rooms_of = |site: Site| ground.rooms(&site).iter().map(move |&room| (site.clone(), room));
    let mut rooms: Vec<_> = sites.into_iter().flat_map(rooms_of).collect();
    let mut spots = Vec::new();
    // The second time, the parts of semaphores that the lines have shown.
    while !rooms.is_empty() {
        let said = reader.ask(&rooms, |(site, room)| list(ground.path_of(site, *room)), Call::children).await?;
        let mut parts = Vec::new();
        for ((site, room), said) in rooms.into_iter().zip(said) {
            if said.as_ref().is_err_and(|error| error.is(ErrorCode::NoAuth)) {
                model.close(&site);
            }
            let Ok(children) = said else {
                continue;
            };
            if room == Room::Line {
                let found = Room::besides_line(&children, ground.layout()).into_iter();
                parts.extend(found.filter(|&room| room != Room::Beside).map(|room| (site.clone(), room)));
            }
            let spot = |contender: Contender| {
                let name = contender.id.as_str().to_owned();
                (Spot { site: site.clone(), room, name }, contender)
            };
            spots.extend(room.contenders(&children, ground.layout()).into_iter().map(spot));
        }
        rooms = parts;
    }
    read_spots(reader, model, &spots).await
}

/// Reads contenders.
pub(super) async fn read_spots(
    reader: &mut Reader,
    model: &mut Model,
    spots: &[(Spot, Contender)],
) -> Result<(), ClientError> {
    let ground = model.ground().clone();
    let path_of = |spot: &Spot| format!("{}/{}", ground.path_of(&spot.site, spot.room), spot.name);
    let said = reader.ask(spots, |(spot, _)| read(path_of(spot)), Call::data).await?;
    for ((spot, contender), said) in spots.iter().zip(said) {
        match Found::of(contender, said) {
            Some(found) => model.put(spot, found),
            None => model.remove(spot),
        }
    }
    Ok(())
}
