# Figures that read the same files are drawn by one job: most of its time goes into loading the
# libraries that draw. Most rules are `draw_comparison` with other inputs, outputs and functions.


rule draw_comparison:
    input:
        summary=result("utility/comparison.csv"),
    output:
        figure("comparison", "matched_comparison", "The main result"),
    log:
        log_of("draw_comparison"),
    benchmark:
        benchmark_of("draw_comparison")
    # Drawing a figure takes seconds: a cluster runs several jobs in one submission.
    group:
        "figures"
    conda:
        "../../environment.yml"
    resources:
        **cost(memory(1500, per_cell=1.5), 2),
    params:
        code=DRAWING,
        figures=calls(
            (
                "figures.distances.draw_comparison",
                {"target_delta": config["target_delta"]},
            )
        ),
    script:
        "../scripts/draw_figure.py"


use rule draw_comparison as draw_checkins with:
    input:
        checkins=unit_checkins,
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("checkins.{region}.{grid}", "checkins_map", "Data"),
    log:
        log_of("draw_checkins.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_checkins.{region}.{grid}")
    params:
        figures=calls(("figures.maps.draw_checkins", {**NAMED, "dots": real_rows})),


use rule draw_comparison as draw_privacy with:
    input:
        curves=result("privacy/{region}.{grid}.curves.parquet"),
    output:
        figure("privacy.{region}.{grid}", "delta_curves", "Privacy"),
    log:
        log_of("draw_privacy.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_privacy.{region}.{grid}")
    params:
        figures=calls(("figures.privacy.draw_privacy", AT_TARGET)),


use rule draw_comparison as draw_errors with:
    input:
        certainty=result("utility/{region}.{grid}.certainty.eps0-{eps0}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("errors.{region}.{grid}.eps0-{eps0}", "error_maps", "Estimates"),
    log:
        log_of("draw_errors.{region}.{grid}.eps0-{eps0}"),
    benchmark:
        benchmark_of("draw_errors.{region}.{grid}.eps0-{eps0}")
    params:
        figures=calls(
            ("figures.cell_confidence.draw_errors", AT_TARGET),
        ),


use rule draw_comparison as draw_mechanisms with:
    input:
        summary=result("utility/{region}.{grid}.csv"),
    output:
        figure("mechanisms.{region}.{grid}", "mechanisms", "Which mechanism"),
    log:
        log_of("draw_mechanisms.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_mechanisms.{region}.{grid}")
    params:
        figures=calls(("figures.mechanisms.draw_mechanisms", {})),


use rule draw_comparison as draw_recommended with:
    input:
        unpack(target_releases),
        summary=result("utility/{region}.{grid}.csv"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("recommended.{region}.{grid}", "recommended_maps", "The main result"),
    log:
        log_of("draw_recommended.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_recommended.{region}.{grid}")
    params:
        figures=calls(("figures.recommended.draw_recommended", NAMED)),


use rule draw_comparison as draw_series with:
    input:
        unpack(target_releases),
        summary=result("utility/{region}.{grid}.csv"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        figure("series.{region}.{grid}", "series", "The main result"),
    log:
        log_of("draw_series.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_series.{region}.{grid}")
    params:
        figures=calls(("figures.recommended.draw_series", NAMED)),


use rule draw_comparison as draw_cell_sizes with:
    input:
        sizes=result("utility/{region}.cell-sizes.csv"),
    output:
        figure("cell-sizes.{region}", "cell_sizes", "Estimates"),
    log:
        log_of("draw_cell_sizes.{region}"),
    benchmark:
        benchmark_of("draw_cell_sizes.{region}")
    params:
        figures=calls(("figures.cell_sizes.draw_cell_sizes", NAMED)),


rule cell_sizes:
    input:
        [figure_files(f"cell-sizes.{region}") for region in REGIONS],
        [result(f"utility/{region}.cell-sizes.csv") for region in REGIONS],
    localrule: True


# Each pair of rules is for the regions with the same calibrations, usually all regions.
for suffix, own, regions in regions_by_calibrations():

    rule:
        name:
            f"draw_estimates{suffix}"
        input:
            releases=result("releases/{region}.{grid}.eps0-{eps0}.parquet"),
            samples=result("samples/{region}.{grid}.parquet"),
            cells=result("grids/{region}.{grid}.parquet"),
            basemap=basemap_file,
            outline=outline_file,
        output:
            [
                figure(
                    "estimates.{region}.{grid}.eps0-{eps0}",
                    "estimate_maps",
                    "Estimates",
                    calibration,
                )
                for calibration in ["matched", *own]
            ],
        log:
            log_of(f"draw_estimates{suffix}.{{region}}.{{grid}}.eps0-{{eps0}}"),
        benchmark:
            benchmark_of(f"draw_estimates{suffix}.{{region}}.{{grid}}.eps0-{{eps0}}")
        wildcard_constraints:
            region="|".join(regions),
        group:
            "figures"
        conda:
            "../../environment.yml"
        resources:
            **cost(memory(1500, per_cell=1.5), 2),
        params:
            code=DRAWING,
            figures=calls(
                *(
                    (
                        "figures.maps.draw_estimates",
                        {**AT_TARGET, "calibration": calibration},
                    )
                    for calibration in ["matched", *own]
                )
            ),
        script:
            "../scripts/draw_figure.py"

    rule:
        name:
            f"draw_distances{suffix}"
        input:
            utility=result("utility/{region}.{grid}.parquet"),
        output:
            [
                figure(
                    "distances.{region}.{grid}", "distances", "Distances", calibration
                )
                for calibration in ["matched", DELTA_HAT, *own]
            ],
            figure(
                "distances-over-eps.{region}.{grid}", "distance_over_eps", "Distances"
            ),
        log:
            log_of(f"draw_distances{suffix}.{{region}}.{{grid}}"),
        benchmark:
            benchmark_of(f"draw_distances{suffix}.{{region}}.{{grid}}")
        wildcard_constraints:
            region="|".join(regions),
        group:
            "figures"
        conda:
            "../../environment.yml"
        resources:
            **cost(memory(1500, per_cell=1.5), 2),
        params:
            code=DRAWING,
            figures=calls(
                *(
                    (
                        "figures.distances.draw_distances",
                        {**AT_TARGET, "calibration": calibration},
                    )
                    for calibration in ["matched", DELTA_HAT, *own]
                ),
                ("figures.distances.draw_distances_over_eps", NAMED),
            ),
        script:
            "../scripts/draw_figure.py"
