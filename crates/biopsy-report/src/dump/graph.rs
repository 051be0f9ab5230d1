//! Who waits for whom, as a picture: circles of waits on the right, those who wait behind them to the left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use biopsy_analyze::dump::{DumpAnalysis, LockKind, LockOwner, LockQueue};
use biopsy_model::Tid;

use crate::html::text;
use crate::units::{count, counted};

/// Boxes of one picture: more would not be read.
const BOXES: usize = 60;
/// Pictures.
const PICTURES: usize = 12;
/// Rows of the table.
const QUEUES: usize = 60;

const WIDTH: f64 = 200.0;
const HEIGHT: f64 = 42.0;
/// Room between layers, where the arrows and their words are.
const GAP: f64 = 130.0;
const ROW: f64 = 60.0;
const MARGIN: f64 = 16.0;

pub(super) fn has_any(analysis: &DumpAnalysis) -> bool {
    !analysis.waits.queues.is_empty()
}

pub(super) fn section(html: &mut String, analysis: &DumpAnalysis) {
    if !has_any(analysis) {
        return;
    }
    html.push_str("<section id=\"waits\"><h2>Waits</h2>");
    let pictures = pictures(analysis);
    let lead = if pictures.is_empty() {
        "No thread waits for a lock that another one holds, as far as locks have owners that can be read."
    } else {
        "An arrow leads from who waits to who has what it waits for. Owners were read from the locks in memory."
    };
    let _ = write!(html, "<p class=\"lead\">{lead}</p>");
    let more = pictures.len() > PICTURES;
    for picture in pictures.into_iter().take(PICTURES) {
        picture.draw(html, analysis);
    }
    if more {
        html.push_str("<p class=\"note\">There are more: see the table.</p>");
    }
    table(html, analysis);
    html.push_str("</section>\n");
}

fn table(html: &mut String, analysis: &DumpAnalysis) {
    let owned = |queue: &&LockQueue| queue.owner != LockOwner::NotKnown;
    let queues: Vec<&LockQueue> = analysis.waits.queues.iter().filter(owned).collect();
    if !queues.is_empty() {
        rows(html, analysis, &queues);
    }
    let others: Vec<&LockQueue> = analysis.waits.queues.iter().filter(|queue| !owned(queue)).collect();
    if !others.is_empty() {
        let _ = write!(
            html,
            "<details class=\"more\"><summary>{} without an owner: conditions, semaphores, futexes of runtimes</summary>",
            counted(others.len() as u64, "wait", "waits")
        );
        rows(html, analysis, &others);
        html.push_str("</details>");
    }
}

fn rows(html: &mut String, analysis: &DumpAnalysis, queues: &[&LockQueue]) {
    html.push_str(
        "<div class=\"table\"><table><thead><tr><th>What</th><th>At</th><th>Held by</th><th class=\"numeric\">Waiting</th><th>Who \
         waits</th></tr></thead><tbody>",
    );
    for queue in queues.iter().take(QUEUES) {
        let owner = match queue.owner {
            LockOwner::Thread(tid) => text(&label(analysis, tid)),
            LockOwner::Elsewhere(tid) => format!("thread {tid}, <span class=\"bad\">not in the dump</span>"),
            LockOwner::Readers => "readers".to_owned(),
            LockOwner::NotKnown => "<span class=\"muted\">nobody, or not known</span>".to_owned(),
        };
        let waiters: Vec<String> =
            queue.waiters.iter().take(4).map(|tid| text(&label(analysis, *tid))).collect();
        let more = queue.waiters.len().saturating_sub(4);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(
            html,
            "<tr title=\"{}\"><td>{}</td><td><code>{:#x}</code></td><td>{owner}</td><td class=\"numeric\">{}</td>\
             <td class=\"text\">{}{more}</td></tr>",
            text(&queue.proof),
            queue.kind.words(),
            queue.lock,
            count(queue.waiters.len() as u64),
            waiters.join(", ")
        );
    }
    html.push_str("</tbody></table></div>");
    if queues.len() > QUEUES {
        let _ = write!(html, "<p class=\"note\">{} more.</p>", queues.len() - QUEUES);
    }
}

fn label(analysis: &DumpAnalysis, tid: Tid) -> String {
    analysis.thread(tid).map_or_else(|| format!("thread {tid}"), |thread| thread.label())
}

/// Threads that are connected by waits. Waiters of one owner that nobody waits for are one box.
struct Picture {
    /// Members of the circle, in order; or the one thread that everybody waits for.
    roots: Vec<Tid>,
    circle: bool,
    boxes: Vec<Box>,
}

struct Box {
    threads: Vec<Tid>,
    /// Who it waits for; `None`: a root.
    owner: Option<Tid>,
    /// Waits between it and the roots.
    layer: usize,
}

fn pictures(analysis: &DumpAnalysis) -> Vec<Picture> {
    let mut waiters: BTreeMap<Tid, Vec<Tid>> = BTreeMap::new();
    for (waiter, owner) in &analysis.waits.edges {
        waiters.entry(*owner).or_default().push(*waiter);
    }
    let waiting: BTreeSet<Tid> = analysis.waits.edges.iter().map(|(waiter, _)| *waiter).collect();
    let circles = analysis.waits.cycles.iter().map(|cycle| (cycle.clone(), true));
    let others = waiters.keys().filter(|owner| !waiting.contains(owner)).map(|owner| (vec![*owner], false));
    let mut pictures: Vec<Picture> = circles
        .chain(others)
        .map(|(roots, circle)| Picture { boxes: behind(&roots, &waiters), roots, circle })
        // A join of one thread needs no picture.
        .filter(|picture| picture.circle || !only_joins(analysis, picture))
        .collect();
    let size = |picture: &Picture| picture.boxes.iter().map(|one| one.threads.len()).sum::<usize>();
    pictures.sort_by_key(|picture| (!picture.circle, std::cmp::Reverse(size(picture))));
    pictures
}

fn only_joins(analysis: &DumpAnalysis, picture: &Picture) -> bool {
    let threads = picture.boxes.iter().flat_map(|one| &one.threads);
    let mut locks = threads.filter_map(|tid| analysis.thread(*tid)?.lock.as_ref());
    locks.all(|lock| lock.kind == LockKind::Join)
}

/// Layer by layer, away from the roots.
fn behind(roots: &[Tid], waiters: &BTreeMap<Tid, Vec<Tid>>) -> Vec<Box> {
    let mut seen: BTreeSet<Tid> = roots.iter().copied().collect();
    let mut boxes = Vec::new();
    let mut layer: Vec<Tid> = roots.to_vec();
    let mut depth = 1;
    while !layer.is_empty() && boxes.len() < BOXES {
        let mut next = Vec::new();
        for owner in layer {
            let mut leaves = Vec::new();
            for waiter in waiters.get(&owner).into_iter().flatten() {
                if !seen.insert(*waiter) {
                    continue;
                }
                if waiters.contains_key(waiter) {
                    boxes.push(Box { threads: vec![*waiter], owner: Some(owner), layer: depth });
                    next.push(*waiter);
                } else {
                    leaves.push(*waiter);
                }
            }
            if !leaves.is_empty() {
                boxes.push(Box { threads: leaves, owner: Some(owner), layer: depth });
            }
        }
        layer = next;
        depth += 1;
    }
    boxes.truncate(BOXES);
    boxes
}

impl Picture {
    fn draw(&self, html: &mut String, analysis: &DumpAnalysis) {
        let layers = self.boxes.iter().map(|one| one.layer).max().unwrap_or(0);
        let in_layer = |layer: usize| self.boxes.iter().filter(|one| one.layer == layer).count();
        let tallest = (1..=layers).map(in_layer).max().unwrap_or(0);
        let (root_width, root_height) = self.root_size();
        let height = root_height.max(tallest as f64 * ROW) + 2.0 * MARGIN;
        let left = layers as f64 * (WIDTH + GAP);
        let width = left + root_width + 2.0 * MARGIN;
        let shown = width.min(1220.0);
        let _ = write!(
            html,
            "<figure class=\"graph{}\"><svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{shown:.0}\" role=\"img\" aria-label=\"{}\">",
            if self.circle { " circle" } else { "" },
            if self.circle { "Threads that wait for each other" } else { "Threads that wait for one" }
        );
        html.push_str(
            "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
             <path d=\"M0 0.5 L7.5 4 L0 7.5 z\"/></marker></defs>",
        );
        let mut centers: BTreeMap<Tid, (f64, f64)> = BTreeMap::new();
        for (index, tid) in self.roots.iter().enumerate() {
            let (x, y) = self.root_center(index);
            let at = (MARGIN + left + x, y + (height - root_height) / 2.0);
            centers.insert(*tid, at);
        }
        let mut used: BTreeMap<usize, usize> = BTreeMap::new();
        for one in &self.boxes {
            let row = used.entry(one.layer).or_default();
            let room = in_layer(one.layer) as f64 * ROW;
            let y = (height - room) / 2.0 + (*row as f64 + 0.5) * ROW;
            *row += 1;
            let x = MARGIN + left - one.layer as f64 * (WIDTH + GAP) + WIDTH / 2.0;
            if let Some(first) = one.threads.first() {
                centers.insert(*first, (x, y));
            }
        }
        if self.circle {
            self.circle_edges(html, analysis, &centers);
        }
        for one in &self.boxes {
            let from = one.threads.first().and_then(|tid| centers.get(tid));
            let to = one.owner.and_then(|owner| centers.get(&owner));
            if let (Some(from), Some(to)) = (from, to) {
                let start = (from.0 + WIDTH / 2.0, from.1);
                let end = (to.0 - WIDTH / 2.0, to.1);
                let bend = (end.0 - start.0) / 2.0;
                let _ = write!(
                    html,
                    "<path class=\"edge\" marker-end=\"url(#head)\" d=\"M{:.1} {:.1} C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}\"/>",
                    start.0,
                    start.1,
                    start.0 + bend,
                    start.1,
                    end.0 - bend,
                    end.1,
                    end.0,
                    end.1
                );
            }
        }
        for tid in &self.roots {
            if let Some(center) = centers.get(tid) {
                draw_box(html, analysis, &[*tid], *center, if self.circle { "member" } else { "holder" });
            }
        }
        for one in &self.boxes {
            if let Some(center) = one.threads.first().and_then(|tid| centers.get(tid)) {
                draw_box(html, analysis, &one.threads, *center, "waiter");
            }
        }
        html.push_str("</svg></figure>");
    }

    fn radius(&self) -> f64 {
        // Boxes of a circle must not touch: as much of its edge as they are wide.
        (self.roots.len() as f64 * 46.0).max(110.0)
    }

    fn root_size(&self) -> (f64, f64) {
        match self.roots.len() {
            0 | 1 => {
                (WIDTH + if self.circle { 70.0 } else { 0.0 }, HEIGHT + if self.circle { 50.0 } else { 0.0 })
            }
            2 => (2.0 * WIDTH + GAP * 1.6, HEIGHT + 90.0),
            _ => (2.0 * self.radius() * 1.5 + WIDTH, 2.0 * self.radius() + HEIGHT + 10.0),
        }
    }

    fn root_center(&self, index: usize) -> (f64, f64) {
        let (width, height) = self.root_size();
        match self.roots.len() {
            0 | 1 => (WIDTH / 2.0, height / 2.0),
            2 => (WIDTH / 2.0 + index as f64 * (width - WIDTH), height / 2.0),
            count => {
                let angle = std::f64::consts::TAU * index as f64 / count as f64 + std::f64::consts::PI;
                let radius = self.radius();
                (width / 2.0 + radius * 1.5 * angle.cos(), height / 2.0 + radius * angle.sin())
            }
        }
    }

    fn circle_edges(&self, html: &mut String, analysis: &DumpAnalysis, centers: &BTreeMap<Tid, (f64, f64)>) {
        let count = self.roots.len();
        for (index, tid) in self.roots.iter().enumerate() {
            let next = self.roots.get((index + 1) % count.max(1));
            let (Some(from), Some(to)) = (centers.get(tid), next.and_then(|next| centers.get(next))) else {
                continue;
            };
            let what = analysis.thread(*tid).and_then(|thread| thread.lock.as_ref()).map(|lock| lock.kind);
            let words = what.map_or("", |kind| match kind {
                LockKind::Mutex => "wants its mutex",
                LockKind::Spin => "wants its spin lock",
                LockKind::Monitor => "wants its monitor",
                LockKind::SystemLock => "wants its lock",
                LockKind::Pulse => "waits for its pulse",
                LockKind::RwLockRead => "wants to read",
                LockKind::RwLockWrite => "wants to write",
                LockKind::Join => "waits for its end",
                LockKind::Condition | LockKind::Semaphore | LockKind::Barrier | LockKind::Futex => "waits",
            });
            let (path, label) = match count {
                1 => {
                    let right = from.0 + WIDTH / 2.0;
                    let path = format!(
                        "M{right:.1} {:.1} C{:.1} {:.1} {:.1} {:.1} {right:.1} {:.1}",
                        from.1 + 10.0,
                        right + 60.0,
                        from.1 + 40.0,
                        right + 60.0,
                        from.1 - 40.0,
                        from.1 - 10.0
                    );
                    (path, (from.0, from.1 + HEIGHT / 2.0 + 18.0))
                }
                2 => {
                    let up = if index == 0 { -1.0 } else { 1.0 };
                    let side = if index == 0 { 1.0 } else { -1.0 };
                    let start = (from.0 + side * WIDTH / 2.0, from.1 + up * 8.0);
                    let end = (to.0 - side * WIDTH / 2.0, to.1 + up * 8.0);
                    let middle = f64::midpoint(start.0, end.0);
                    let lift = from.1 + up * 52.0;
                    let path = format!(
                        "M{:.1} {:.1} Q{middle:.1} {lift:.1} {:.1} {:.1}",
                        start.0, start.1, end.0, end.1
                    );
                    (path, (middle, from.1 + up * 40.0 + if index == 0 { -3.0 } else { 11.0 }))
                }
                _ => {
                    let (start, end) = (edge_of(*from, *to), edge_of(*to, *from));
                    let path = format!("M{:.1} {:.1} L{:.1} {:.1}", start.0, start.1, end.0, end.1);
                    (path, (f64::midpoint(start.0, end.0), f64::midpoint(start.1, end.1) - 5.0))
                }
            };
            let _ = write!(html, "<path class=\"edge\" marker-end=\"url(#head)\" d=\"{path}\"/>");
            if count <= 6 {
                let _ = write!(
                    html,
                    "<text class=\"why\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
                    label.0, label.1
                );
            }
        }
    }
}

/// Where a line from the middle of a box towards `to` leaves it.
fn edge_of(from: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let reach =
        |distance: f64, half: f64| if distance.abs() < 1e-6 { f64::INFINITY } else { half / distance.abs() };
    let part = reach(dx, WIDTH / 2.0 + 2.0).min(reach(dy, HEIGHT / 2.0 + 2.0)).min(1.0);
    (from.0 + dx * part, from.1 + dy * part)
}

fn draw_box(html: &mut String, analysis: &DumpAnalysis, threads: &[Tid], (x, y): (f64, f64), class: &str) {
    let Some(first) = threads.first() else { return };
    let names: Vec<String> = threads.iter().take(20).map(|tid| label(analysis, *tid)).collect();
    let own = analysis.thread(*first);
    let (title, below) = if threads.len() == 1 {
        let place =
            own.and_then(|thread| analysis.groups.get(thread.group)?.own_frame()).map(|row| row.label());
        let place = place.unwrap_or_default();
        match own.filter(|thread| thread.named) {
            Some(thread) => (thread.name.clone(), format!("{first} · {place}")),
            None => (format!("thread {first}"), place),
        }
    } else {
        let short: Vec<String> = threads
            .iter()
            .take(8)
            .filter_map(|tid| analysis.thread(*tid))
            .map(|thread| if thread.named { thread.name.clone() } else { thread.tid.to_string() })
            .collect();
        (format!("{} threads", count(threads.len() as u64)), short.join(", "))
    };
    let group = analysis.thread(*first).map_or(0, |thread| thread.group);
    let _ = write!(
        html,
        "<a href=\"#stack-{group}\"><g class=\"box {class}\"><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text class=\"below\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g></a>",
        text(&names.join(", ")),
        x - WIDTH / 2.0,
        y - HEIGHT / 2.0,
        x - WIDTH / 2.0 + 10.0,
        y - 3.0,
        text(&short(&title, 24)),
        x - WIDTH / 2.0 + 10.0,
        y + 13.0,
        text(&short(&below, 32))
    );
}

fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let mut cut: String = name.chars().take(most - 1).collect();
    cut.push('…');
    cut
}
