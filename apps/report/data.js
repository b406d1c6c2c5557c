// The document inside the page, unpacked. Tables are flat arrays with the index functions below.
async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/// The integers that pack_integers of the program wrote: bytes of one place together, the lowest first.
async function unpack(packed) {
  if (!packed) return null;
  const bytes = await inflate(packed.data),
        values = packed.width <= 4 ? new Uint32Array(packed.count) : new Float64Array(packed.count);
  for (let place = packed.width - 1; place >= 0; --place)
    for (let i = 0; i < packed.count; ++i) values[i] = values[i] * 256 + bytes[place * packed.count + i];
  return values;
}

class PlanData {
  static async load(json) {
    const plan = new PlanData(), h = json.plan;
    Object.assign(plan, {
      json,
      name: json.name,
      header: h,
      layers: json.layers,
      recounted: json.recounted,
      M: h.num_micro_batches,
      L: h.num_layers,
      E: h.num_experts,
      P: h.ep_size,
      D: h.num_ep_groups,
      G: h.gpus_per_node,
      W: h.ep_size * h.num_ep_groups,
      details: new Map()
    });
    const load = async table => {
      if (!table) return null;
      const names = Object.keys(table), values = await Promise.all(names.map(name => unpack(table[name])));
      return Object.fromEntries(names.map((name, i) => [name, values[i]]));
    };
    [plan.skew, plan.loads, plan.traffic] = await Promise.all([json.skew, json.loads, json.traffic].map(load));
    Object.assign(plan, await load({
                    home: json.home,
                    previous: json.previous,
                    expertCopies: json.expert_copies,
                    copyRoutes: json.copy_routes,
                    expertTokens: json.expert_tokens,
                    rows: json.rows
                  }));
    return plan;
  }

  /// A ratio of one (cell, group), kept in ten-thousandths; NaN where the group has no load or nobody knows it.
  ratio(name, l, m, g) {
    const value = this.skew[name] ? this.skew[name][(m * this.L + l) * this.D + g] : 0;
    return value ? value / 1e4 : NaN;
  }
  /// side: 'before' or 'after'; r is a global rank.
  load(side, l, m, r) {
    return this.loads[side][(m * this.L + l) * this.W + r];
  }
  static homeOfBlock(plan, e) {
    return Math.floor(e / Math.ceil(plan.E / plan.P));
  }
  homeOf(l, e) {
    return this.home[l * this.E + e];
  }
  previousOf(l, e) {
    return this.previous[l * this.E + e];
  }
  node(rank) {
    return Math.floor(rank / this.G);
  }
  moved(l, e) {
    return this.homeOf(l, e) !== this.previousOf(l, e);
  }

  /// A micro-batch by expert: parts of each layer and, with a dump, counts (L, D, E). null where the page has none.
  async detail(m) {
    const packed = this.json.detail[m];
    if (!packed) return null;
    if (!this.details.has(m)) this.details.set(m, this.unpackDetail(packed));
    return this.details.get(m);
  }
  async unpackDetail(packed) {
    const names = ['cell', 'expert', 'rank', 'slot', 'tokens'];
    const [cell, expert, rank, slot, tokens] = await Promise.all(names.map(name => unpack(packed.parts[name])));
    const parts = [];
    for (let l = 0, at = 0; l < this.L; ++l) {
      parts.push([]);
      for (let i = 0; i < cell[l]; ++i, ++at)
        parts[l].push({expert: expert[at], rank: rank[at], copy: slot[at] > 0, slot: slot[at] - 1, tokens: tokens[at]});
    }
    return {parts, counts: await unpack(packed.counts)};
  }
}

/// Loads of the ranks of one (cell, group) by expert: for each rank of the group a list {expert, tokens, copy, more}, the largest
/// first. Without counts by expert, what remains of a rank's load is one entry {expert: -1}.
async function loadsByExpert(plan, l, m, g) {
  const detail = await plan.detail(m), sides = {before: [], after: []};
  for (const side of ['before', 'after'])
    for (let p = 0; p < plan.P; ++p) sides[side].push([]);
  const parts = detail ? detail.parts[l].filter(part => Math.floor(part.rank / plan.P) === g) : [];
  const replicated = new Set(parts.map(part => part.expert));
  for (const part of parts) sides.after[part.rank % plan.P].push(part);
  const counts = detail && detail.counts;
  for (let e = 0; counts && e < plan.E; ++e) {
    const tokens = counts[(l * plan.D + g) * plan.E + e];
    if (!tokens) continue;
    sides.before[PlanData.homeOfBlock(plan, e)].push({expert: e, tokens, copy: false});
    if (!replicated.has(e)) sides.after[plan.homeOf(l, e)].push({expert: e, tokens, copy: false});
  }
  for (const side of ['before', 'after'])
    sides[side].forEach((list, p) => {
      const rest = plan.load(side, l, m, g * plan.P + p) - list.reduce((sum, part) => sum + part.tokens, 0);
      list.sort((a, b) => b.tokens - a.tokens || a.expert - b.expert);
      if (rest > 0) list.push({expert: -1, tokens: rest, copy: false});
    });
  return {...sides, parts, byExpert: Boolean(counts), kept: Boolean(detail)};
}
