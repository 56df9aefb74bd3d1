# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A simulated phone and its energy: `marimo edit simulated-phone.py`."""

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo

    import torpor

    return mo, torpor


@app.cell
def _(mo):
    mo.md("""
    # A phone that draws 60 frames per second

    Frames on a simulated Pixel 6 under three idle governors: power, where the time went, and the
    sleeps of one CPU. Requires `pip install marimo`.
    """)
    return


@app.cell
def _(torpor):
    phone = torpor.simulate(
        "frames",
        platform="pixel6",
        governors=["menu", "teo", "deepest"],
        duration="1s",
        seeds=3,
        strip=True,
    )
    phone
    return (phone,)


@app.cell
def _(mo, phone):
    mo.Html(phone.page()._repr_html_())
    return


@app.cell
def _(mo, phone):
    first = phone.runs[0]
    # Energies of clusters are sums over the seeds.
    idle_uj = {c["name"]: c["idle_energy_uj"] / len(first["seeds"]) for c in first["clusters"]}
    mo.md(
        "\n".join(
            f"- {name}: {energy / 3:,.0f} µJ idle per run" for name, energy in idle_uj.items()
        )
    )
    return (idle_uj,)


if __name__ == "__main__":
    app.run()
