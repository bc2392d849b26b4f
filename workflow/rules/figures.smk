# Figures that read the same files are drawn by one job: most of its time goes into loading the
# libraries that draw.


# The rules below are this one with files and parameters of their own. It has no parameter that is
# an argument of one figure only, because they inherit all of its parameters.
rule draw:
    log:
        log_of("draw"),
    # Drawing a figure takes seconds: a cluster runs several jobs in one submission.
    group:
        "figures"
    resources:
        **cost(1500, 2, per_cell=1.5),
    params:
        code=DRAWING,
    script:
        "../scripts/draw_figure.py"


use rule draw as draw_comparison with:
    input:
        summary=result("utility/comparison.csv"),
    output:
        figure("comparison", "matched_comparison", "The main result"),
    log:
        log_of("draw_comparison"),
    params:
        function="figures.distances.draw_comparison",
        target_delta=config["target_delta"],


use rule draw as draw_checkins with:
    input:
        checkins=unit_checkins,
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("checkins.{region}.{grid}", "checkins_map", "Data"),
    log:
        log_of("draw_checkins.{region}.{grid}"),
    params:
        **OF_REGION,
        function="figures.maps.draw_checkins",
        dots=real_rows,


use rule draw as draw_privacy with:
    input:
        curves=result("privacy/{region}.{grid}.curves.parquet"),
    output:
        figure("privacy.{region}.{grid}", "delta_curves", "Privacy"),
    log:
        log_of("draw_privacy.{region}.{grid}"),
    params:
        **AT_TARGET,
        function="figures.bounds.draw_privacy",


use rule draw as draw_errors with:
    input:
        certainty=result("utility/{region}.{grid}.certainty.eps0-{eps0}.parquet"),
        utility=result("utility/{region}.{grid}.eps0-{eps0}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("errors.{region}.{grid}.eps0-{eps0}", "error_maps", "Estimates"),
    log:
        log_of("draw_errors.{region}.{grid}.eps0-{eps0}"),
    params:
        **AT_TARGET,
        function="figures.maps.draw_errors",


use rule draw as draw_mechanisms with:
    input:
        summary=result("utility/{region}.{grid}.csv"),
    output:
        figure("mechanisms.{region}.{grid}", "mechanisms", "Which mechanism"),
    log:
        log_of("draw_mechanisms.{region}.{grid}"),
    params:
        function="figures.mechanisms.draw_mechanisms",
        title=place_title,
        replaced=replaced_of,


use rule draw as draw_recommended with:
    input:
        unpack(target_releases),
        summary=result("utility/{region}.{grid}.csv"),
        utility=result("utility/{region}.{grid}.parquet"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure("recommended.{region}.{grid}", "recommended_maps", "The main result"),
    log:
        log_of("draw_recommended.{region}.{grid}"),
    params:
        **OF_REGION,
        function="figures.maps.draw_recommended",


use rule draw as draw_series with:
    input:
        unpack(target_releases),
        summary=result("utility/{region}.{grid}.csv"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        figure("series.{region}.{grid}", "series", "The main result"),
    log:
        log_of("draw_series.{region}.{grid}"),
    params:
        **OF_REGION,
        function="figures.maps.draw_series",


use rule draw as draw_cell_sizes with:
    input:
        sizes=result("utility/{region}.cell-sizes.csv"),
    output:
        figure("cell-sizes.{region}", "cell_sizes", "Estimates"),
    log:
        log_of("draw_cell_sizes.{region}"),
    params:
        **OF_REGION,
        function="figures.distances.draw_cell_sizes",


rule cell_sizes:
    input:
        [figure_files(f"cell-sizes.{region}") for region in REGIONS],
        [result(f"utility/{region}.cell-sizes.csv") for region in REGIONS],
    localrule: True


use rule draw as draw_estimates with:
    input:
        releases=result("releases/{region}.{grid}.eps0-{eps0}.parquet"),
        utility=result("utility/{region}.{grid}.eps0-{eps0}.parquet"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        basemap=basemap_file,
        outline=outline_file,
    output:
        figure(
            "estimates.{region}.{grid}.eps0-{eps0}.matched",
            "estimate_maps",
            "Estimates",
        ),
    log:
        log_of("draw_estimates.{region}.{grid}.eps0-{eps0}"),
    params:
        **AT_TARGET,
        function="figures.maps.draw_estimates",
        calibrations=["matched"],


use rule draw as draw_distances with:
    input:
        utility=result("utility/{region}.{grid}.parquet"),
    output:
        figure("distances.{region}.{grid}.matched", "distances.matched", "Distances"),
        figure("distances.{region}.{grid}.delta-hat", "distances.delta-hat", UNEQUAL),
    log:
        log_of("draw_distances.{region}.{grid}"),
    params:
        **AT_TARGET,
        function="figures.distances.draw_distances",
        calibrations=["matched", "delta-hat"],


use rule draw as draw_distances_over_eps with:
    input:
        utility=result("utility/{region}.{grid}.parquet"),
    output:
        figure("distances-over-eps.{region}.{grid}", "distance_over_eps", "Distances"),
    log:
        log_of("draw_distances_over_eps.{region}.{grid}"),
    params:
        **OF_REGION,
        function="figures.distances.draw_distances_over_eps",


# Calibrated as Biswas, Jung and Palamidessi do, which is not equal privacy.
use rule draw_estimates as draw_estimates_as_published with:
    output:
        figure(
            "estimates.{region}.{grid}.eps0-{eps0}.as-published",
            "estimate_maps",
            UNEQUAL,
        ),
    log:
        log_of("draw_estimates_as_published.{region}.{grid}.eps0-{eps0}"),
    params:
        **AT_TARGET,
        function="figures.maps.draw_estimates",
        calibrations=["as-published"],


use rule draw_distances as draw_distances_as_published with:
    output:
        figure("distances.{region}.{grid}.as-published", "distances", UNEQUAL),
    log:
        log_of("draw_distances_as_published.{region}.{grid}"),
    params:
        **AT_TARGET,
        function="figures.distances.draw_distances",
        calibrations=["as-published"],
