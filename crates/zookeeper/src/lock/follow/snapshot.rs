//! Reads all locks of a scope, or all contenders of some of them.

use std::sync::Arc;

use lockkeeper_core::Contender;
use lockkeeper_zk_proto::message::ErrorCode;

use crate::error::ClientError;
use crate::link::Call;
use crate::lock::follow::model::Model;
use crate::lock::follow::path_scheme::{ContenderNode, PathScheme, Site};
use crate::lock::follow::reading::{Reader, list, read};
use crate::lock::shown::{ChildGroup, Found};

/// Reads all locks of a scope.
///
/// # Errors
///
/// Also if this user may not list the base.
pub(super) async fn snapshot(reader: &mut Reader, scheme: &Arc<PathScheme>) -> Result<Model, ClientError> {
    let mut model = Model::new(scheme.clone());
    reader.sync(scheme.base()).await?;
    let mut said = reader.ask(&[()], |()| list(scheme.base().to_owned()), Call::children).await?;
    let nodes = match said.pop() {
        Some(Err(error)) if error.is(ErrorCode::NoAuth) => return Err(error),
        said => said.and_then(Result::ok).unwrap_or_default(),
    };
    let mut sites: Vec<_> = nodes.into_iter().map(Site::Below).chain(scheme.sites_besides()).collect();
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
    let scheme = model.scheme().clone();
    let path_of = |site: &Site| scheme.path_of(site, scheme.groups(site)[0]);
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
    let scheme = model.scheme().clone();
    let groups_of = |site: Site| scheme.groups(&site).iter().map(move |&group| (site.clone(), group));
    let mut groups: Vec<_> = sites.into_iter().flat_map(groups_of).collect();
    let mut nodes_of_contenders = Vec::new();
    // The second time, the parts of semaphores that the lines have shown.
    while !groups.is_empty() {
        let said = reader.ask(&groups, |(site, group)| list(scheme.path_of(site, *group)), Call::children).await?;
        let mut parts = Vec::new();
        for ((site, group), said) in groups.into_iter().zip(said) {
            if said.as_ref().is_err_and(|error| error.is(ErrorCode::NoAuth)) {
                model.close(&site);
            }
            let Ok(children) = said else {
                continue;
            };
            if group == ChildGroup::Line {
                let found = ChildGroup::besides_line(&children, scheme.layout()).into_iter();
                parts.extend(found.filter(|&group| group != ChildGroup::Beside).map(|group| (site.clone(), group)));
            }
            let contender_node = |contender: Contender| {
                let name = contender.id.as_str().to_owned();
                (ContenderNode { site: site.clone(), group, name }, contender)
            };
            nodes_of_contenders.extend(group.contenders(&children, scheme.layout()).into_iter().map(contender_node));
        }
        groups = parts;
    }
    read_spots(reader, model, &nodes_of_contenders).await
}

/// Reads contenders.
pub(super) async fn read_spots(
    reader: &mut Reader,
    model: &mut Model,
    nodes_of_contenders: &[(ContenderNode, Contender)],
) -> Result<(), ClientError> {
    let scheme = model.scheme().clone();
    let path_of = |contender_node: &ContenderNode| {
        format!("{}/{}", scheme.path_of(&contender_node.site, contender_node.group), contender_node.name)
    };
    let said = reader.ask(nodes_of_contenders, |(contender_node, _)| read(path_of(contender_node)), Call::data).await?;
    for ((contender_node, contender), said) in nodes_of_contenders.iter().zip(said) {
        match Found::of(contender, said) {
            Some(found) => model.put(contender_node, found),
            None => model.remove(contender_node),
        }
    }
    Ok(())
}
