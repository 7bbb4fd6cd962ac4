// SPDX-License-Identifier: BSD-3-Clause
// The scheme of graticule-swe (enstrophy form, SSP-RK3, polar filter) as loops over plain arrays on one core, without
// the engine: no ranks, no halo plan, no views. `swe_loop` compiles it and compares its time and its result.
//   swe_loop NLAT NLON STEPS SECONDS OUT      Rossby-Haurwitz wave; prints seconds per step, writes h (f64) to OUT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double radius = 6.37122e6;
constexpr double rotation = 7.292e-5;
constexpr double gravity = 9.80616;

int ny = 0;
int nx = 0;

/// Rows of nx columns with one ghost on each side.
struct Field {
  explicit Field(int rows) : values(std::size_t(rows) * std::size_t(nx + 2)) {}
  double* row(int j) { return values.data() + std::size_t(j) * std::size_t(nx + 2) + 1; }
  void wrap(int rows) {
    for (int j = 0; j < rows; ++j) {
      double* const x = row(j);
      x[-1] = x[nx - 1];
      x[nx] = x[0];
    }
  }
  std::vector<double> values;
};

struct State {
  Field h{ny}, u{ny}, v{ny};
  Field& field(int f) { return f == 0 ? h : f == 1 ? u : v; }
};

struct Model {
  Model() {
    for (int j = 0; j < ny; ++j) c.push_back(std::cos(phi(j)));
    for (int j = 0; j <= ny; ++j) {
      fc.push_back(j == 0 || j == ny ? 0 : std::cos(phi(j) - 0.5 * dphi));
      f.push_back(2 * rotation * std::sin(phi(j) - 0.5 * dphi));
    }
    for (int j = 0; j < ny; ++j) {
      centres.push_back(kernel(c[std::size_t(j)]));
      faces.push_back(j == 0 ? std::vector<double>() : kernel(fc[std::size_t(j)]));
    }
  }
  double phi(int j) const { return (j + 0.5) * dphi - pi / 2; }

  std::vector<double> kernel(double cosine) const {
    std::vector<double> factors{1.0};
    for (int k = 1; k <= nx / 2; ++k) factors.push_back(std::min(1.0, cosine / 0.5 / std::sin(k * dlambda / 2)));
    if (*std::min_element(factors.begin(), factors.end()) == 1) return {};
    std::vector<double> result;
    for (int m = 0; m <= nx / 2; ++m) {
      double sum = 1;
      for (int k = 1; k <= nx / 2; ++k)
        sum += (2 * k == nx ? 1 : 2) * factors[std::size_t(k)] * std::cos(2 * pi * double(long(k) * m % nx) / nx);
      result.push_back(sum / nx);
    }
    return result;
  }

  void filter(std::vector<double> const& k, double* row) {
    if (k.empty()) return;
    int const half = nx / 2;
    padded.resize(std::size_t(nx + 2 * half));
    for (int i = 0; i < nx + 2 * half; ++i) padded[std::size_t(i)] = row[(i + nx - half) % nx];
    double const* const x = padded.data() + half;
    for (int i = 0; i < nx; ++i) row[i] = k[0] * x[i];
    for (int m = 1; m <= (nx - 1) / 2; ++m)
      for (int i = 0; i < nx; ++i) row[i] += k[std::size_t(m)] * (x[i - m] + x[i + m]);
    for (int i = 0; i < nx; ++i) row[i] += k[std::size_t(half)] * x[i - half];
  }

  /// Potential vorticity of a pole from the circulation along the row beside it.
  double pole(State& s, int j, double sign) {
    double wind = 0;
    double depth = 0;
    for (int i = 0; i < nx; ++i) {
      wind += s.u.row(j)[i];
      depth += s.h.row(j)[i];
    }
    double const vorticity = sign * wind / nx * c[std::size_t(j)] / (radius * (1 - std::sin(std::abs(phi(j)))));
    return (sign * 2 * rotation + vorticity) / (depth / nx);
  }

  void tendencies(State& s, State& d) {
    for (int n = 0; n < 3; ++n) s.field(n).wrap(ny);
    for (int j = 0; j < ny; ++j) {
      double const *h = s.h.row(j), *u = s.u.row(j), *v = s.v.row(j);
      double const* north = j + 1 < ny ? s.v.row(j + 1) : zero.row(0);
      double* const x = flux_u.row(j);
      double* const e = energy.row(j);
      for (int i = 0; i <= nx; ++i) x[i] = u[i] * (0.5 * (h[i - 1] + h[i]));
      double const a = fc[std::size_t(j)];
      double const b = fc[std::size_t(j) + 1];
      for (int i = -1; i < nx; ++i)
        e[i] = gravity * h[i] + (0.25 * (u[i] * u[i] + u[i + 1] * u[i + 1]) +
                                 0.25 * (v[i] * v[i] * a + north[i] * north[i] * b) / c[std::size_t(j)]);
    }
    for (int j = 1; j < ny; ++j) {
      double const *h = s.h.row(j), *below = s.h.row(j - 1), *v = s.v.row(j), *u = s.u.row(j), *under = s.u.row(j - 1);
      double* const y = flux_v.row(j);
      double* const p = q.row(j);
      double const cn = c[std::size_t(j)];
      double const cs = c[std::size_t(j) - 1];
      double const a = fc[std::size_t(j)];
      for (int i = -1; i < nx; ++i) y[i] = v[i] * (0.5 * (below[i] + h[i])) * a;
      for (int i = 0; i <= nx; ++i) {
        double const curl = ((v[i] - v[i - 1]) / dlambda - (u[i] * cn - under[i] * cs) / dphi) / (radius * a);
        double const depth = (cs * (below[i - 1] + below[i]) + cn * (h[i - 1] + h[i])) / (2 * (cs + cn));
        p[i] = (f[std::size_t(j)] + curl) / depth;
      }
    }
    std::fill_n(q.row(0), nx + 1, pole(s, 0, -1));
    std::fill_n(q.row(ny), nx + 1, pole(s, ny - 1, 1));
    for (int j = 0; j < ny; ++j) {
      double const *x = flux_u.row(j), *y = flux_v.row(j), *up = flux_v.row(j + 1), *e = energy.row(j);
      double const *p = q.row(j), *above = q.row(j + 1);
      double *dh = d.h.row(j), *du = d.u.row(j), *dv = d.v.row(j);
      double const cosine = c[std::size_t(j)];
      for (int i = 0; i < nx; ++i) {
        dh[i] = -((x[i + 1] - x[i]) / dlambda + (up[i] - y[i]) / dphi) / (radius * cosine);
        du[i] = 0.5 * (p[i] + above[i]) * (0.25 * (y[i - 1] + y[i] + (up[i - 1] + up[i]))) / cosine -
                (e[i] - e[i - 1]) / (radius * cosine * dlambda);
      }
      if (j == 0) continue;
      double const *xs = flux_u.row(j - 1), *es = energy.row(j - 1);
      for (int i = 0; i < nx; ++i)
        dv[i] = -(0.5 * (p[i] + p[i + 1])) * (0.25 * (xs[i] + xs[i + 1] + (x[i] + x[i + 1]))) -
                (e[i] - es[i]) / (radius * dphi);
    }
    for (int j = 0; j < ny; ++j) {
      filter(centres[std::size_t(j)], d.h.row(j));
      filter(centres[std::size_t(j)], d.u.row(j));
      filter(faces[std::size_t(j)], d.v.row(j));
    }
  }

  void combine(State& a, double part, State& b, State& d, double seconds, State& out) {
    for (int n = 0; n < 3; ++n)
      for (int j = 0; j < ny; ++j) {
        double const *x = a.field(n).row(j), *y = b.field(n).row(j), *t = d.field(n).row(j);
        double* const o = out.field(n).row(j);
        for (int i = 0; i < nx; ++i) o[i] = x[i] + part * ((y[i] - x[i]) + seconds * t[i]);
      }
  }

  double dphi = pi / ny;
  double dlambda = 2 * pi / nx;
  std::vector<double> c, fc, f, padded;
  std::vector<std::vector<double>> centres, faces;
  Field flux_u{ny}, flux_v{ny + 1}, q{ny + 1}, energy{ny}, zero{1};
};

void rossby_haurwitz(Model& model, State& s) {
  constexpr double w = 7.848e-6;
  constexpr int r = 4;
  for (int j = 0; j < ny; ++j)
    for (int i = 0; i < nx; ++i) {
      double const lambda = i * model.dlambda;
      double const west = lambda - 0.5 * model.dlambda;
      double const x = std::cos(model.phi(j));
      double const y = std::sin(model.phi(j));
      double const xr = std::pow(x, r);
      double const a = 0.5 * w * (2 * rotation + w) * x * x +
                       0.25 * w * w * xr * xr * ((r + 1) * x * x + (2 * r * r - r - 2) - 2 * r * r / (x * x));
      double const b =
          2 * (rotation + w) * w / ((r + 1) * (r + 2)) * xr * ((r * r + 2 * r + 2) - (r + 1) * (r + 1) * x * x);
      double const e = 0.25 * w * w * xr * xr * ((r + 1) * x * x - (r + 2));
      s.h.row(j)[i] = 8000 + radius * radius / gravity * (a + b * std::cos(r * lambda) + e * std::cos(2 * r * lambda));
      s.u.row(j)[i] = radius * w * (x + std::pow(x, r - 1) * (r * y * y - x * x) * std::cos(r * west));
      double const south = model.phi(j) - 0.5 * model.dphi;
      if (j > 0)
        s.v.row(j)[i] = -radius * w * r * std::pow(std::cos(south), r - 1) * std::sin(south) * std::sin(r * lambda);
    }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  ny = std::atoi(argv[1]);
  nx = std::atoi(argv[2]);
  int const steps = std::atoi(argv[3]);
  double const seconds = std::atof(argv[4]);
  Model model;
  State state, stage, d;
  rossby_haurwitz(model, state);
  auto const begin = std::chrono::steady_clock::now();
  for (int n = 0; n < steps; ++n) {
    model.tendencies(state, d);
    model.combine(state, 1, state, d, seconds, stage);
    model.tendencies(stage, d);
    model.combine(state, 0.25, stage, d, seconds, stage);
    model.tendencies(stage, d);
    model.combine(state, 2.0 / 3, stage, d, seconds, state);
  }
  std::printf("%.9g\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps);
  std::FILE* const out = std::fopen(argv[5], "wb");
  if (out == nullptr) return 1;
  for (int j = 0; j < ny; ++j) std::fwrite(state.h.row(j), sizeof(double), std::size_t(nx), out);
  return std::fclose(out) == 0 ? 0 : 1;
}
