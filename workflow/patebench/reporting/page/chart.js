// Puts the chart in the place of the still picture; where that fails, the picture stays.
{
  const figure = document.getElementById("chart").closest("figure");
  const chart = JSON.parse(document.getElementById("chart-data").textContent);
  figure.classList.add("live");
  vegaEmbed("#chart", chart, { renderer: "svg", actions: false, bind: "#chart-filters" })
    .catch(() => figure.classList.remove("live"));
}
